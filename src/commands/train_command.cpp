#include <cmath>
#include <nlohmann/json.hpp>

#include "commands/command_line.h"
#include "commands/dry_run.h"
#include "commands/setting_sources.h"
#include "commands/settings_text.h"
#include "core/log.h"
#include "train/evaluator.h"
#include "train/trainer.h"

namespace flashbert {
namespace {

struct TrainOptions {
  KeyOptions keys;
  bool overwrite = false;
  bool dry_run = false;
  bool json = false;
};

ResolvedSettings resolve(const TrainOptions& options, const Ranks& ranks) {
  ResolvedSettings resolved = resolve_settings(
      {.command_line = options.keys.given(), .config_file = options.keys.config_file, .environment = flashbert_environment()});
  resolved.values.overwrite = options.overwrite;
  resolved.values.dry_run = options.dry_run;
  if (ranks.root()) {
    for (const std::string& note : resolved.notes) spdlog::warn("{}", note);
  }
  return resolved;
}

/// The root's text on all ranks.
std::string shared_text(std::string text, Ranks& ranks) {
  std::uint64_t bytes = text.size();
  ranks.broadcast(&bytes, sizeof bytes);
  text.resize(bytes);
  ranks.broadcast(text.data(), text.size());
  return text;
}

/// What is stored as config.toml. The settings are each rank's own, so that a difference is found out; the environment is the root's, since
/// launchers give every rank a little of its own.
ConfigText config_text(const ResolvedSettings& resolved, Ranks& ranks) {
  return [&resolved, environment = shared_text(environment_text(), ranks)](const std::vector<DecidedValue>& decided) {
    return settings_text(resolved, decided) + environment;
  };
}

}  // namespace

void add_train_command(CLI::App& app, Peers peers, Action& action) {
  const auto options = std::make_shared<TrainOptions>();  // shared by the parser's callback and the action
  CLI::App* const command = app.add_subcommand("train", "Train to the target accuracy and write an MLPerf log");
  command->footer("Example: flashbert train --config configs/demo.toml --train-data data/train --eval-data data/eval --out results/first");
  options->keys.add_to(*command);
  command->add_flag("--overwrite", options->overwrite, "replace results that lie in --out");
  command->add_flag("--dry-run", options->dry_run, "print settings, memory plan and evaluation points; train nothing");
  command->callback([options, peers, &action] {
    action = [options, peers] {
      const ResolvedSettings resolved = resolve(*options, peers.ranks);
      const ConfigText text = config_text(resolved, peers.ranks);
      if (options->dry_run) {
        run_dry(resolved.values, text, peers.ranks);
        return ExitCode::kGood;
      }
      return run_training(resolved.values, text, peers, [](const std::string& summary) { fmt::print("{}", summary); });
    };
  });
}

void add_eval_command(CLI::App& app, Peers peers, Action& action) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* const command = app.add_subcommand("eval", "Masked-LM and next-sentence accuracy of a checkpoint");
  command->footer("Example: flashbert eval --init checkpoint.safetensors --model config.json --eval-data data/eval --json");
  options->keys.add_to(*command);
  command->add_flag("--json", options->json, "one JSON document on standard output");
  command->callback([options, peers, &action] {
    action = [options, peers] {
      const ResolvedSettings resolved = resolve(*options, peers.ranks);
      const ConfigText text = [&resolved](const std::vector<DecidedValue>& decided) { return settings_text(resolved, decided); };
      const EvaluationResult r = run_evaluation(resolved.values, text, peers);
      const bool finite = std::isfinite(r.mlm_loss) && std::isfinite(r.nsp_loss);
      const ExitCode code = finite ? ExitCode::kGood : ExitCode::kBadVerdict;
      if (!peers.ranks.root()) return code;
      if (!finite) spdlog::error("the losses are not finite: {} holds weights that are not, or far too large", resolved.values.init);
      if (options->json) {
        const nlohmann::ordered_json json = {{"accuracy", r.accuracy},        {"correct", r.correct},   {"masked", r.masked},
                                             {"samples", r.samples},          {"mlm_loss", r.mlm_loss}, {"nsp_loss", r.nsp_loss},
                                             {"nsp_accuracy", r.nsp_accuracy}};
        fmt::print("{}\n", json.dump());
      } else {
        fmt::print("masked-LM accuracy      {:.5f} ({} of {} masked tokens in {} samples)\n", r.accuracy, r.correct, r.masked, r.samples);
        fmt::print("masked-LM loss          {:.5f}\nnext-sentence loss      {:.5f}\nnext-sentence accuracy  {:.5f}\n", r.mlm_loss,
                   r.nsp_loss, r.nsp_accuracy);
      }
      return code;
    };
  });
}

}  // namespace flashbert
