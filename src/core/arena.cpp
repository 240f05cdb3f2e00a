#include "core/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/memory.h"

namespace flashbert {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

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

Arena::Arena(const ArenaPlan& plan) : bytes_(round_up(std::max<std::int64_t>(plan.total_bytes(), 1), kHugePage)) {
  // The system promises more memory than it has and kills who takes it; an error before that can still be told.
  const std::int64_t available = available_memory_bytes();
  check<EnvironmentError>(bytes_ <= available,
                          "the plan below needs {:.1f} MiB, {:.1f} MiB are free\n{}Use a smaller micro-batch or model.", mebibytes(bytes_),
                          mebibytes(available), plan.text());
  // One huge page more than needed, so that the first buffer can start on a huge-page boundary.
  void* mapping = mmap(nullptr, static_cast<std::size_t>(bytes_ + kHugePage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check<EnvironmentError>(mapping != MAP_FAILED, "cannot map {:.1f} MiB for the plan below: {}\n{}Use a smaller micro-batch or model.",
                          mebibytes(bytes_), std::strerror(errno), plan.text());
  auto* const start = static_cast<char*>(mapping);
  auto* const base = start + (kHugePage - static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(start) % kHugePage)) % kHugePage;
  if (base > start) munmap(start, static_cast<std::size_t>(base - start));
  munmap(base + bytes_, static_cast<std::size_t>(kHugePage - (base - start)));
  base_ = base;
  // Advice only: without huge pages the program is slower to start, not wrong.
  static_cast<void>(madvise(base_, static_cast<std::size_t>(bytes_), MADV_HUGEPAGE));
  const std::int64_t pages = bytes_ / kHugePage;
#pragma omp parallel for schedule(static)
  for (std::int64_t page = 0; page < pages; ++page) std::memset(base + page * kHugePage, 0, static_cast<std::size_t>(kHugePage));
  tensors_.reserve(plan.entries().size());
  for (const ArenaPlan::Entry& entry : plan.entries()) tensors_.emplace_back(base + entry.offset, entry.dtype, entry.shape);
}

Arena::Arena(Arena&& other) noexcept
    : tensors_(std::move(other.tensors_)), base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, static_cast<std::size_t>(bytes_));
}

Tensor Arena::tensor(BufferId id) const { return tensors_.at(static_cast<std::size_t>(id.index)); }

}  // namespace flashbert
