#include "report/run_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace flashbert {
namespace {

using Json = nlohmann::ordered_json;

double ratio(double a, double b) { return b > 0.0 ? a / b : 0.0; }

/// Samples of the steps after the first over the time of these steps: no evaluation, saving or warm-up in it.
double sequences_per_second(const RunReport& r) {
  return ratio(static_cast<double>(r.timed_steps) * static_cast<double>(r.global_batch), r.timed_steps_s);
}
double tokens_per_second(const RunReport& r) { return ratio(static_cast<double>(r.timed_tokens), r.timed_steps_s); }
double filler_share(const RunReport& r) {
  return r.padded_tokens > 0 ? 1.0 - ratio(static_cast<double>(r.train_tokens), static_cast<double>(r.padded_tokens)) : 0.0;
}

}  // namespace

std::string report_json(const RunReport& r) {
  Json json = {
      {"status", r.status},
      {"reason", r.reason},
      {"target_reached", r.target_reached},
      {"target_accuracy", r.curve.target},
      {"accuracy", nullptr},
      {"minutes", r.run_s / 60.0},
      {"run_s", r.run_s},
      {"initialisation_s", r.initialisation_s},
      {"steps", r.steps},
      {"train_samples", r.train_samples},
      {"eval_samples", r.eval_samples},
      {"seq_per_s", nullptr},
      {"tokens_per_s", nullptr},
      {"filler_share", filler_share(r)},
      {"micro_batches_without_mask", r.micro_batches_without_mask},
      {"time",
       {{"first_step_s", r.first_step_s},
        {"steps_s", r.steps_s},
        {"wait_s", r.wait_s},
        {"evaluation_s", r.evaluation_s},
        {"saving_s", r.saving_s}}},
      {"global_batch", r.global_batch},
      {"ranks", r.ranks},
      {"threads", r.threads},
      {"precision", r.precision},
      {"device", r.device},
      {"seed", r.seed},
      {"config", "config.toml"},
      {"curve", Json::array()},
  };
  if (r.timed_steps > 0) {
    json["seq_per_s"] = sequences_per_second(r);
    json["tokens_per_s"] = tokens_per_second(r);
  }
  if (r.evaluated && std::isfinite(r.accuracy)) json["accuracy"] = r.accuracy;
  for (const auto& [samples, accuracy] : r.curve.points) {
    json["curve"].push_back({{"samples", samples}, {"accuracy", std::isfinite(accuracy) ? Json(accuracy) : Json()}});
  }
  json["digest"] = r.digest;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string report_text(const RunReport& r) {
  const char* const verdict = r.target_reached ? "TARGET REACHED" : r.failed ? "FAILED" : r.evaluated ? "target not reached" : "ended";
  std::string text = fmt::format("{}: {}\n", verdict, r.reason);
  text += fmt::format("time to train      {:.2f} s ({:.3f} min) from run_start to run_stop, initialisation {:.2f} s before it\n", r.run_s,
                      r.run_s / 60.0, r.initialisation_s);
  text += fmt::format("training           {} samples in {} steps of {}", r.train_samples, r.steps, r.global_batch);
  if (r.timed_steps > 0) text += fmt::format(", {:.1f} sequences/s, {:.0f} tokens/s", sequences_per_second(r), tokens_per_second(r));
  text += fmt::format("\nfiller             {:.1f} % of the padded tokens, never computed\n", 100.0 * filler_share(r));
  text += fmt::format(
      "where time went    first step {:.2f} s, steps {:.2f} s (of it waiting for data {:.2f} s), evaluation {:.2f} s, saving {:.2f} s\n",
      r.first_step_s, r.steps_s, r.wait_s, r.evaluation_s, r.saving_s);
  if (r.evaluated)
    text += fmt::format("accuracy           {:.4f} over {} evaluation samples, target {:.3f}\n\n{}", r.accuracy, r.eval_samples,
                        r.curve.target, plot_text(r.curve));
  return text;
}

}  // namespace flashbert
