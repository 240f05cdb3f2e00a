#include "train/sample_trace.h"

#include <string>

#include "core/error.h"

namespace flashbert {

SampleTrace::SampleTrace(const std::filesystem::path& path, const DataSet& data, Ranks& ranks) : path_(path), data_(data), ranks_(ranks) {
  if (!ranks_.root()) return;
  file_.open(path_);
  check<EnvironmentError>(file_.good(), "cannot write trace-samples {}", path_.string());
}

void SampleTrace::write(const StepBatch& batch) {
  const auto first = static_cast<std::int64_t>(batch.slots.size()) * ranks_.rank();
  std::string lines;
  for (std::size_t i = 0; i < batch.slots.size(); ++i) {
    const SampleId& id = batch.slots[i];
    lines += fmt::format("{} {} {} {} {}\n", batch.step, first + static_cast<std::int64_t>(i), ranks_.rank(),
                         data_.shards[static_cast<std::size_t>(id.shard)].path.filename().string(), id.row);
  }
  if (!lines.empty()) lines.pop_back();  // gather_lines ends every rank's text itself
  lines = ranks_.gather_lines(lines);
  if (!ranks_.root()) return;
  file_ << lines << std::flush;
  check<EnvironmentError>(file_.good(), "cannot write to trace-samples {}: the disk may be full", path_.string());
}

}  // namespace flashbert
