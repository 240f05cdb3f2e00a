#include "core/arena.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashbert {
namespace {

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

BufferId ArenaPlan::book(std::string group, std::string name, Dtype dtype, const Shape& shape) {
  entries_.push_back({std::move(group), std::move(name), dtype, shape, total_bytes_});
  total_bytes_ += round_up(shape.elements() * static_cast<std::int64_t>(size_of(dtype)), kAlignment);
  return {static_cast<std::int32_t>(entries_.size()) - 1};
}

std::int64_t ArenaPlan::group_bytes(const std::string& group) const {
  std::int64_t bytes = 0;
  for (const Entry& entry : entries_) {
    if (entry.group == group) bytes += round_up(entry.shape.elements() * static_cast<std::int64_t>(size_of(entry.dtype)), kAlignment);
  }
  return bytes;
}

std::string ArenaPlan::text() const {
  std::vector<std::string> groups;
  for (const Entry& entry : entries_) {
    if (std::find(groups.begin(), groups.end(), entry.group) == groups.end()) groups.push_back(entry.group);
  }
  std::string text;
  for (const std::string& group : groups) text += fmt::format("{:<12} {:>10.1f} MiB\n", group, mebibytes(group_bytes(group)));
  return text + fmt::format("{:<12} {:>10.1f} MiB\n", "total", mebibytes(total_bytes_));
}

namespace {

Buffer allocate_for(const ArenaPlan& plan, Context& context) {
  try {
    return context.allocate(plan.total_bytes(), MemoryKind::kDevice);
  } catch (const EnvironmentError& error) {
    throw EnvironmentError(
        fmt::format("no memory for the plan below: {}\n{}Use a smaller micro-batch or model.", error.what(), plan.text()));
  }
}

}  // namespace

Arena::Arena(const ArenaPlan& plan, Context& context) : buffer_(allocate_for(plan, context)) {
  tensors_.reserve(plan.entries().size());
  for (const ArenaPlan::Entry& entry : plan.entries()) tensors_.push_back(buffer_.tensor(entry.dtype, entry.shape, entry.offset));
}

}  // namespace flashbert
