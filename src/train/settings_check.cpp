#include "train/settings_check.h"

#include "core/error.h"
#include "report/mlperf_run.h"
#include "train/batch_split.h"

namespace flashbert {
namespace {

void validate_optimizer(const OptimizerSettings& o) {
  check<ConfigError>(o.lr_total_steps > 0, "lr-total-steps is {}; it must be at least 1", o.lr_total_steps);
  check<ConfigError>(o.warmup_steps >= 0, "warmup-steps is {}; it must not be negative", o.warmup_steps);
  check<ConfigError>(o.warmup_steps <= o.lr_total_steps, "warmup-steps {} is above lr-total-steps {}", o.warmup_steps, o.lr_total_steps);
  check<ConfigError>(o.warmup_steps == 0 || o.start_warmup_step <= 0, "start-warmup-step is {}; above 0 the first rates would be negative",
                     o.start_warmup_step);
}

void validate_submission(const SubmissionSettings& sub) {
  check<ConfigError>(sub.division == "closed" || sub.division == "open", "submission-division is '{}'; choose closed or open",
                     sub.division);
  const bool status_known =
      sub.status.empty() || sub.status == "cloud" || sub.status == "onprem" || sub.status == "preview" || sub.status == "research";
  check<ConfigError>(status_known, "submission-status is '{}'; choose cloud, onprem, preview or research", sub.status);
  for (const auto& [name, text] : {std::pair{"submission-org", sub.org}, std::pair{"submission-platform", sub.platform}}) {
    if (!text.empty()) check_log_text(name, text);
  }
  if (sub.division == "closed") {
    check<ConfigError>(!sub.org.empty() && !sub.status.empty() && !sub.platform.empty(),
                       "submission-division closed needs submission-org ('{}'), submission-status ('{}') and submission-platform ('{}')",
                       sub.org, sub.status, sub.platform);
  }
}

}  // namespace

void validate(const TrainSettings& s, int ranks) {
  s.model.validate();
  static_cast<void>(split_batch(s, ranks));
  validate_optimizer(s.optimizer);
  check<ConfigError>(!s.train_data.empty(), "train-data is not set; give a shard or a folder of shards");
  check<ConfigError>(!s.eval_data.empty() || s.max_steps > 0 || s.max_samples > 0,
                     "without eval-data nothing ends the run: give eval-data, max-steps or max-samples");
  check<ConfigError>(s.resume.empty(), "resume is '{}'; this version starts runs only from --init (weights)", s.resume);
  check<ConfigError>(!s.tensorboard, "tensorboard is true; this version writes metrics.jsonl only");
  validate_submission(s.submission);
}

}  // namespace flashbert
