#include "allocation_hook.h"
#include "data/synth.h"
#include "training_fixture.h"

namespace flashbert::testing {
namespace {

// oneDNN builds its table of arguments anew in each execute: seven small blocks at most, freed on return, which its interface cannot avoid
// (kernels/cpu/linear_onednn.h). They are named here, not hidden: everything else must be silent.
TEST(Allocation, StepsAfterTheSecondAllocateNothingOfTheirOwn) {
  if (!AllocationHook::available()) GTEST_SKIP() << "AddressSanitizer owns operator new in this build";
  const std::filesystem::path data = std::filesystem::temp_directory_path() / fmt::format("flashbert-allocation-{}", ::getpid());
  static_cast<void>(synthesize(
      {.out = data, .samples = 400, .eval_samples = 8, .vocab = 157, .seq_len = 32, .layout = "varlength", .shards = 2, .seed = 3}));
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    TrainingFixture fixture({.model = {.layers = 2, .hidden = 64, .heads = 2, .intermediate = 128, .vocab = 157, .max_positions = 32},
                             .optimizer = {.lr = 1e-3, .lr_total_steps = 100},
                             .data = data / "train",
                             .global_batch = 16,
                             .micro_batch = 8,
                             .precision = precision});
    fixture.initialise();
    for (int s = 0; s < 2; ++s) static_cast<void>(fixture.step());
    // The loader may still be reading shards on its own thread; that its batches stay in the same memory is a test of tests/data.
    const StepBatch batch = fixture.loader->next();
    fixture.loader.reset();
    AllocationHook::start();
    for (int s = 0; s < 3; ++s) static_cast<void>(fixture.engine->train_step(batch));
    const AllocationHook::Counts counts = AllocationHook::stop();
    EXPECT_EQ(counts.ours, 0);
    fmt::print("allocations inside oneDNN in 3 steps: {}\n", counts.onednn);
  }
  std::filesystem::remove_all(data);
}

}  // namespace
}  // namespace flashbert::testing
