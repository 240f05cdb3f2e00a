#include "train/decided_values.h"

namespace flashbert {

std::vector<DecidedValue> decided_backend(const TrainSettings& asked, const Backend& backend, int ranks) {
  std::vector<DecidedValue> decided;
  if (asked.threads != backend.threads) {
    decided.push_back({"threads", std::to_string(backend.threads),
                       ranks == 1 ? "the cores of this process" : "the cores of rank 0; other ranks may have others"});
  }
  if (asked.precision == Precision::kBf16 && backend.compute == Dtype::kF32) {
    decided.push_back({"precision", "f32", "this processor has no bf16 products"});
  }
  if (asked.device != backend.context->name()) decided.push_back({"device", backend.context->name(), "what this build can use here"});
  return decided;
}

std::vector<DecidedValue> decided_values(const TrainSettings& asked, std::uint64_t seed, const Backend& backend, const BatchPlan& plan,
                                         int ranks) {
  std::vector<DecidedValue> decided = decided_backend(asked, backend, ranks);
  if (asked.seed != seed) decided.push_back({"seed", std::to_string(seed), "drawn from the system"});
  if (asked.micro_batch != plan.split.micro_batch) {
    std::string reason = plan.note;
    if (asked.accum > 0) reason = fmt::format("global-batch / (accum x {} ranks)", ranks);
    if (reason.empty()) reason = "the least that a rank chose";
    decided.push_back({"micro-batch", std::to_string(plan.split.micro_batch), reason});
  }
  if (asked.accum != plan.split.accumulation) {
    decided.push_back({"accum", std::to_string(plan.split.accumulation), fmt::format("global-batch / (micro-batch x {} ranks)", ranks)});
  }
  return decided;
}

}  // namespace flashbert
