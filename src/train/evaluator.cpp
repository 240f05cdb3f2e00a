#include "train/evaluator.h"

#include <algorithm>

#include "core/log.h"
#include "train/checkpoint_load.h"
#include "train/run_inputs.h"

namespace flashbert {

EvaluationResult run_evaluation(const TrainSettings& settings, const ConfigText& config_text, Peers peers) {
  settings.model.validate();
  check<ConfigError>(!settings.eval_data.empty(), "eval-data is not set; give a shard or a folder of shards");
  check<ConfigError>(settings.init != "random", "init is not set; give a checkpoint to evaluate");
  check_checkpoint(settings.init, ParameterTable(settings.model));
  const Backend backend = make_backend(settings, peers.ranks);
  if (peers.ranks.root()) spdlog::info("{}", backend.note);
  const DataSet data = open_data_set(settings.eval_data, settings.model.max_positions);
  constexpr std::int64_t kTokensAtOnce = 8192;
  const std::int64_t seq_len = data.seq_len > 0 ? data.seq_len : settings.model.max_positions;
  const std::int64_t micro_batch =
      settings.micro_batch > 0 ? settings.micro_batch : std::clamp<std::int64_t>(kTokensAtOnce / seq_len, 1, data.samples);
  Engine engine({.model = settings.model,
                 .optimizer = settings.optimizer,
                 .compute = backend.compute,
                 .capacity = row_capacity(settings, {&data}, micro_batch),
                 .use = Parameters::Use::kInference,
                 .global_batch = micro_batch},
                *backend.ops, peers);
  load_checkpoint(settings.init, engine.model().parameters(), *backend.ops);
  const auto batches =
      load_evaluation(data, settings.eval_samples, micro_batch, peers.ranks.rank(), peers.ranks.size(), sample_limits(settings));
  if (peers.ranks.root()) {
    auto decided = decided_backend(settings, backend, peers.ranks.size());
    if (settings.micro_batch == 0) {
      decided.push_back({"micro-batch", std::to_string(micro_batch), fmt::format("at most {} tokens at once", kTokensAtOnce)});
    }
    spdlog::info("settings\n{}", config_text(decided));
  }
  return engine.evaluate(batches);
}

}  // namespace flashbert
