#pragma once

#include <cstdint>
#include <string>

namespace flashbert {

struct ProgressState {
  std::int64_t step = 0, max_steps = 0;  ///< max_steps 0 = no limit known
  std::int64_t samples = 0;
  double loss = 0.0;
  double accuracy = -1.0;  ///< of the last evaluation; below 0 = none yet
  double samples_per_s = 0.0, tokens_per_s = 0.0;
};

/// "step 120/600  samples 3840  loss 4.210  accuracy 0.312  410 samples/s  21000 tokens/s  ETA 00:01:10"; the ETA is to the step limit.
std::string progress_text(const ProgressState& state);

/// On a terminal one line that is written over; elsewhere a plain line every ten seconds. Writes to standard error.
class ProgressLine {
 public:
  explicit ProgressLine(bool enabled);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Whether a line is due now (so that nobody prepares one in vain).
  [[nodiscard]] bool due() const;
  void show(const ProgressState& state);
  /// Ends the line, so that a message can follow on its own.
  void clear();

 private:
  bool enabled_;
  bool terminal_;
  bool open_ = false;
  double last_s_ = 0.0;
};

}  // namespace flashbert
