#include "bench/bench_loader.h"

#include "core/clock.h"
#include "data/loader.h"
#include "kernels/device_peak.h"

namespace flashbert {

std::vector<BenchRow> bench_loader(const BenchOptions& options, const LoaderBenchOptions& shape) {
  const DataSet data = open_data_set(shape.data, shape.max_positions);
  const std::int64_t width = data.seq_len > 0 ? data.seq_len : shape.max_positions;
  Loader loader(data, {.seed = 1,
                       .global_batch = shape.batch,
                       .micro_batch = shape.batch,
                       .rank = 0,
                       .ranks = 1,
                       .first_step = 0,
                       .capacity = {.sequences = shape.batch, .tokens = shape.batch * width, .masked = shape.batch * width / 4},
                       .limits = {.vocab = 0, .max_positions = shape.max_positions, .type_vocab = 2}});
  const auto start = Clock::now();
  loader.start();
  static_cast<void>(loader.next());
  const double first_s = seconds_since(start);
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  const auto begin = Clock::now();
  while (steps < 5 || seconds_since(begin) < options.seconds) {
    tokens += loader.next().global_tokens;
    ++steps;
  }
  const double elapsed = seconds_since(begin);
  constexpr double kBytesPerToken = 2 * 4 + 4;  // ids, segments, positions and sequences as the batch holds them: a lower bound
  const double bandwidth = measured_host_bandwidth();
  return {{"loader",
           {{"seq_per_s", static_cast<double>(steps * shape.batch) / elapsed},
            {"tokens_per_s", static_cast<double>(tokens) / elapsed},
            {"first_batch_ms", 1e3 * first_s},
            {"share_of_bandwidth", static_cast<double>(tokens) * kBytesPerToken / elapsed / bandwidth}}}};
}

}  // namespace flashbert
