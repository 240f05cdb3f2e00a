#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "allocation_hook.h"
#include "data/synth.h"
#include "training_fixture.h"

namespace flashbert::testing {
namespace {

// The gradient of a benchmark-sized vocabulary is the largest operand of a step; its last rows are no whole block of any kernel.
TEST(Allocation, StepsWithABenchmarkSizedVocabularyStayInThePlan) {
  if (!AllocationHook::available()) GTEST_SKIP() << "a sanitizer owns the allocators in this build";
  const std::filesystem::path data = std::filesystem::temp_directory_path() / fmt::format("flashbert-mapping-{}", ::getpid());
  static_cast<void>(synthesize(
      {.out = data, .samples = 400, .eval_samples = 8, .vocab = 157, .seq_len = 32, .layout = "varlength", .shards = 2, .seed = 3}));
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    TrainingFixture fixture({.model = {.layers = 1, .hidden = 64, .heads = 2, .intermediate = 128, .vocab = 30522, .max_positions = 32},
                             .optimizer = {.lr = 1e-3, .lr_total_steps = 100},
                             .data = data / "train",
                             .global_batch = 16,
                             .micro_batch = 16,
                             .precision = precision,
                             .threads = 4,
                             .max_predictions = 5});
    fixture.initialise();
    const StepBatch batch = fixture.loader->next();
    ASSERT_NE(batch.micro_batches[0].masked() % 32, 0);
    fixture.loader.reset();
    AllocationHook::start();
    for (int s = 0; s < 3; ++s) static_cast<void>(fixture.engine->train_step(batch));
    const AllocationHook::Counts counts = AllocationHook::stop();
    // From the first step on nobody asks for as much as one thread's copy of 32 rows of that gradient: the smallest thing of that size
    // that a plan could have left out.
    EXPECT_LT(counts.largest_bytes, 32 * 30522 * size_of(fixture.backend.compute));
    fmt::print("largest request in 3 steps: {} bytes\n", counts.largest_bytes);
  }
  std::filesystem::remove_all(data);
}

TEST(Allocation, TheHookSeesEveryWayToAskForMemory) {
  if (!AllocationHook::available()) GTEST_SKIP() << "a sanitizer owns the allocators in this build";
  const auto counted = [](const std::function<void*()>& allocate, const std::function<void(void*)>& release) {
    AllocationHook::start();
    void* const memory = allocate();
    const AllocationHook::Counts counts = AllocationHook::stop();
    EXPECT_GE(counts.largest_bytes, sizeof(int));
    const long calls = counts.ours;
    // Looked at, so that no compiler leaves the pair out.
    static_cast<volatile char*>(memory)[0] = 1;
    release(memory);
    return calls;
  };
  struct alignas(128) Wide {
    char bytes[128];
  };
  const auto give_back = [](void* memory) { std::free(memory); };
  EXPECT_EQ(counted([] { return std::malloc(100); }, give_back), 1);
  EXPECT_EQ(counted([] { return std::realloc(nullptr, 100); }, give_back), 1);
  EXPECT_EQ(counted(
                [] {
                  void* memory = nullptr;
                  return ::posix_memalign(&memory, 64, 128) == 0 ? memory : nullptr;
                },
                give_back),
            1);
  EXPECT_EQ(counted([] { return std::calloc(10, 10); }, give_back), 1);
  EXPECT_EQ(counted([] { return std::aligned_alloc(64, 128); }, give_back), 1);
  EXPECT_EQ(counted([] { return static_cast<void*>(new int(1)); }, [](void* memory) { delete static_cast<int*>(memory); }), 1);
  EXPECT_EQ(counted([] { return static_cast<void*>(new Wide); }, [](void* memory) { delete static_cast<Wide*>(memory); }), 1);
  EXPECT_EQ(counted([] { return static_cast<void*>(new int[5]); }, [](void* memory) { delete[] static_cast<int*>(memory); }), 1);
  EXPECT_EQ(counted([] { return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); },
                    [](void* memory) { ::munmap(memory, 4096); }),
            1);
}

// oneDNN builds its table of arguments anew in each execute: seven small blocks at most, freed on return, which its interface cannot avoid
// (kernels/cpu/linear/onednn.h); libgomp makes a team's record of some KiB anew where a region has fewer threads than the one before. They
// are named here, not hidden: everything else must be silent.
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
    fmt::print("allocations in 3 steps: inside oneDNN {}, inside the OpenMP runtime {}\n", counts.onednn, counts.openmp);
  }
  std::filesystem::remove_all(data);
}

}  // namespace
}  // namespace flashbert::testing
