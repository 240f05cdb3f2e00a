#include "report/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/whole_file.h"

namespace flashbert {
namespace {

constexpr double kFlushEvery_s = 1.0;
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

void append(fmt::memory_buffer& buffer, std::string_view key, double value) {
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(buffer), "\"{}\": {}", key, value);
  } else {
    const std::string_view text = std::isnan(value) ? "nan" : value > 0.0 ? "inf" : "-inf";
    fmt::format_to(std::back_inserter(buffer), "\"{}\": null, \"{}_text\": \"{}\"", key, key, text);
  }
}

void append(fmt::memory_buffer& buffer, std::initializer_list<std::pair<std::string_view, double>> values) {
  bool first = true;
  for (const auto& [key, value] : values) {
    if (!first) fmt::format_to(std::back_inserter(buffer), ", ");
    first = false;
    append(buffer, key, value);
  }
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)), last_flush_s_(clock_s()) {
  check<EnvironmentError>(file_ >= 0, "cannot write {}: {}; choose another --out", path.string(), std::strerror(errno));
  buffer_.reserve(kBufferBytes);
}

MetricsLog::~MetricsLog() {
  try {
    flush();
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
  }
  ::close(file_);
}

void MetricsLog::step(const StepMetrics& r) {
  fmt::format_to(std::back_inserter(buffer_), "{{\"step\": {}, \"samples\": {}, ", r.step, r.samples);
  append(buffer_, {{"loss", r.loss}, {"mlm_loss", r.mlm_loss}, {"nsp_loss", r.nsp_loss}, {"lr", r.lr}, {"grad_norm", r.grad_norm}});
  fmt::format_to(std::back_inserter(buffer_), ", \"tokens\": {}, \"masked\": {}, ", r.tokens, r.masked);
  append(buffer_, {{"step_s", r.step_s}, {"wait_s", r.wait_s}});
  fmt::format_to(std::back_inserter(buffer_), "}}\n");
  if (buffer_.size() > kBufferBytes / 2 || clock_s() - last_flush_s_ > kFlushEvery_s) flush();
}

void MetricsLog::evaluation(const EvaluationRecord& r) {
  buffer_.push_back('{');
  append(buffer_, "eval_accuracy", r.accuracy);
  fmt::format_to(std::back_inserter(buffer_), ", \"eval_samples\": {}, \"eval_correct\": {}, \"eval_masked\": {}, \"samples\": {}}}\n",
                 r.eval_samples, r.correct, r.masked, r.samples);
  flush();
}

void MetricsLog::flush() {
  const int failure = write_bytes(file_, {buffer_.data(), buffer_.size()});
  buffer_.clear();
  if (failure != 0) {  // and no check(): its text would be made each time
    throw EnvironmentError(
        fmt::format("cannot write to {}: {}; free some space or choose another --out", path_.string(), std::strerror(failure)));
  }
  last_flush_s_ = clock_s();
}

}  // namespace flashbert
