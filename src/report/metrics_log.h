#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>

namespace flashbert {

struct StepMetrics {
  std::int64_t step = 0;     ///< from 0
  std::int64_t samples = 0;  ///< after the step
  double loss = 0.0, mlm_loss = 0.0, nsp_loss = 0.0, lr = 0.0, grad_norm = 0.0;
  std::int64_t tokens = 0, masked = 0;
  double step_s = 0.0;  ///< the whole step, waiting included
  double wait_s = 0.0;  ///< for data
};

struct EvaluationRecord {
  double accuracy = 0.0;
  std::int64_t eval_samples = 0, correct = 0, masked = 0;
  std::int64_t samples = 0;  ///< trained before
};

/// metrics.jsonl: one JSON object a line, numbers with the fewest digits that read back exactly, not-finite numbers as null with
/// their text beside ("loss": null, "loss_text": "nan"). Writing a step allocates nothing; lines reach the file at evaluations, every
/// second (looked at when a step is written) and at the end. step(), evaluation() and flush() throw EnvironmentError when the file cannot
/// take them.
class MetricsLog {
 public:
  explicit MetricsLog(const std::filesystem::path& path);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;
  void step(const StepMetrics& record);
  void evaluation(const EvaluationRecord& record);
  /// On failure the lines not yet written are dropped, so that the file never holds one twice.
  void flush();

 private:
  std::filesystem::path path_;
  int file_ = -1;
  fmt::memory_buffer buffer_;
  double last_flush_s_ = 0.0;
};

}  // namespace flashbert
