#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_session.h"
#include "comm/ranks.h"
#include "core/error.h"

namespace flashbert {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int exit_code = -1;
  std::string output;
};

/// Runs a shell line in an environment without any launcher's traces, whatever runs the tests.
Outcome run(const std::string& line) {
  std::string clean = "env";
  for (const char* const variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID",
                                     "SLURM_NTASKS", "SLURM_PROCID", "FLASHBERT_ALLOW_SINGLE"}) {
    clean += std::string(" -u ") + variable;
  }
  clean += " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 ";
  const std::string command = clean + line + " 2>&1";
  Outcome outcome;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 512> buffer{};
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) outcome.output += buffer.data();
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

const std::string kProbe = FLASHBERT_SESSION_PROBE;
const std::string kMpiexec = FLASHBERT_MPIEXEC;
const std::string kSlurmTaskOfFour = "SLURM_NTASKS=4 SLURM_PROCID=2 SLURM_STEP_ID=0 ";
constexpr int kEnvironmentCode = static_cast<int>(ExitCode::kEnvironment);

TEST(MpiSession, StaysOutOfThePlainRun) {
  const Outcome outcome = run(kProbe);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "ranks 1 active 0\n");
}

TEST(MpiSession, TheBatchShellsTaskCountIsNoLauncher) {
  const Outcome outcome = run("SLURM_NTASKS=4 " + kProbe);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "ranks 1 active 0\n");
}

TEST(MpiSession, RefusesAWorldOfOneWhereTheSchedulerAnnouncedFour) {
  const Outcome outcome = run(kSlurmTaskOfFour + kProbe);
  EXPECT_EQ(outcome.exit_code, kEnvironmentCode);
  EXPECT_THAT(outcome.output, HasSubstr("MPI sees 1 rank"));
  EXPECT_THAT(outcome.output, HasSubstr("announced 4"));
  EXPECT_THAT(outcome.output, HasSubstr("--mpi=pmix"));
  EXPECT_THAT(outcome.output, HasSubstr("FLASHBERT_ALLOW_SINGLE"));
}

TEST(MpiSession, GoesOnAloneWhereThatIsAllowed) {
  const Outcome outcome = run(kSlurmTaskOfFour + "FLASHBERT_ALLOW_SINGLE=1 " + kProbe);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ranks 1"));
}

TEST(MpiSession, TheNearestLauncherCounts) {
  const Outcome outcome = run(kSlurmTaskOfFour + kMpiexec + " -n 1 " + kProbe);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ranks 1"));
}

TEST(MpiSession, SeesTheWorldOfTheLauncher) {
  const Outcome outcome = run(kMpiexec + " -n 2 " + kProbe);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ranks 2 active 1"));
}

TEST(SelfRanks, LeaveValuesAsTheyAre) {
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(&argc, &argv);
  if (session.active()) GTEST_SKIP() << "started by an MPI launcher";
  const auto ranks = make_ranks(session);
  EXPECT_EQ(ranks->size(), 1);
  EXPECT_TRUE(ranks->root());
  std::vector<double> values = {1.5, -2.0};
  ranks->all_reduce_sum(std::span<double>(values));
  EXPECT_EQ(values, (std::vector<double>{1.5, -2.0}));
  std::vector<std::int64_t> counts = {7};
  ranks->all_reduce_max(counts);
  EXPECT_EQ(counts.front(), 7);
  EXPECT_EQ(ranks->gather_lines("a line"), "a line\n");
  EXPECT_EQ(ranks->description(), "self");
  ranks->barrier();
}

}  // namespace
}  // namespace flashbert
