#include "train/run_description.h"

#include <algorithm>

#include "core/build_info.h"

namespace flashbert {

RunDescription describe_run(const TrainSettings& s, const RunInputs& inputs, const ParameterTable& table) {
  // The open division needs no names; the checker still wants them not to be empty.
  const auto or_unknown = [](const std::string& text, const char* fallback) { return text.empty() ? std::string(fallback) : text; };
  const OptimizerSettings& o = s.optimizer;
  const BatchPlan& plan = inputs.batch;
  return {.org = or_unknown(s.submission.org, "none"),
          .division = s.submission.division,
          .status = or_unknown(s.submission.status, "research"),
          .platform = or_unknown(s.submission.platform, "cpu"),
          .seed = s.seed,
          .global_batch = s.global_batch,
          .accumulation = plan.split.accumulation,
          .device_batch = plan.split.micro_batch,
          .max_sequence_length = plan.engine.capacity.seq_len,
          .max_predictions = plan.engine.capacity.masked / std::max<std::int64_t>(plan.engine.capacity.sequences, 1),
          .eval_samples = inputs.eval_samples,
          .learning_rate = o.lr,
          .lr_power = o.lr_power,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .epsilon = o.epsilon,
          .weight_decay = o.weight_decay,
          .lr_total_steps = o.lr_total_steps,
          .warmup_steps = o.warmup_steps,
          .start_warmup_step = o.start_warmup_step,
          .clip_order = s.clip == ClipOrder::kAfterReduce ? "after-reduce" : "before-reduce",
          .loss_normalisation = s.loss_normalisation == LossNormalisation::kGlobal ? "global" : "per-rank",
          .weight_names = table.tensorflow_names()};
}

std::map<std::string, std::string> software(const Ranks& ranks, const Context& context) {
  std::map<std::string, std::string> all = build_info();
  all["communication"] = ranks.description();
  all["instruction_set"] = context.arithmetic();
  return all;
}

}  // namespace flashbert
