#include "report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/clock.h"
#include "core/log.h"

namespace flashbert {
namespace {

constexpr double kTerminalEvery_s = 0.2;
constexpr double kFileEvery_s = 10.0;

}  // namespace

std::string progress_text(const ProgressState& s) {
  std::string text = s.max_steps > 0 ? fmt::format("step {}/{}", s.step, s.max_steps) : fmt::format("step {}", s.step);
  text += fmt::format("  samples {}  loss {:.3f}", s.samples, s.loss);
  if (s.accuracy >= 0.0) text += fmt::format("  accuracy {:.3f}", s.accuracy);
  text += fmt::format("  {:.0f} samples/s  {:.0f} tokens/s", s.samples_per_s, s.tokens_per_s);
  if (s.max_steps > 0 && s.samples_per_s > 0.0 && s.step > 0) {
    const double samples_a_step = static_cast<double>(s.samples) / static_cast<double>(s.step);
    const auto left_s =
        static_cast<std::int64_t>(static_cast<double>(std::max<std::int64_t>(s.max_steps - s.step, 0)) * samples_a_step / s.samples_per_s);
    text += fmt::format("  ETA {:02}:{:02}:{:02}", left_s / 3600, left_s / 60 % 60, left_s % 60);
  }
  return text;
}

ProgressLine::ProgressLine(bool enabled) : enabled_(enabled), terminal_(isatty(STDERR_FILENO) != 0), last_s_(clock_s()) {}

ProgressLine::~ProgressLine() { clear(); }

bool ProgressLine::due() const { return enabled_ && clock_s() - last_s_ >= (terminal_ ? kTerminalEvery_s : kFileEvery_s); }

void ProgressLine::show(const ProgressState& state) {
  last_s_ = clock_s();
  if (!terminal_) {
    spdlog::info("{}", progress_text(state));
    return;
  }
  static_cast<void>(std::fputs(("\r\033[K" + progress_text(state)).c_str(), stderr));
  open_ = true;
}

void ProgressLine::clear() {
  if (open_) static_cast<void>(std::fputs("\r\033[K", stderr));
  open_ = false;
}

}  // namespace flashbert
