#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "core/error.h"

namespace flashbert {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kProgram = FLASHBERT_PROGRAM;
const std::string kMpiexec = FLASHBERT_MPIEXEC;
// Containers run as root with fewer cores than ranks.
const std::string kMpiEnvironment = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 ";

struct Outcome {
  int exit_code = -1;
  std::string out, error;
};

/// How often the text occurs.
int count(const std::string& all, const std::string& text) {
  int found = 0;
  for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++found;
  return found;
}

class Program : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = fs::temp_directory_path() / ("flashbert_program_" + std::to_string(getpid()));
    fs::create_directories(folder());
    made() =
        run("data synth --out " + (folder() / "data").string() + " --samples 300 --eval-samples 20 --vocab 160 --seq-len 32 --shards 2");
  }
  static void TearDownTestSuite() { fs::remove_all(folder()); }
  static fs::path& folder() {
    static fs::path path;
    return path;
  }
  static Outcome& made() {
    static Outcome outcome;
    return outcome;
  }
  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  /// Runs the program with these words after it, and words before it (variables, a launcher).
  static Outcome run(const std::string& words, const std::string& before = "") {
    const fs::path error_file = folder() / "stderr.txt";
    const std::string line =
        "cd " + folder().string() + " && env -u FLASHBERT_SHARED " + before + kProgram + " " + words + " 2>" + error_file.string();
    Outcome outcome;
    FILE* const pipe = popen(line.c_str(), "r");
    if (pipe == nullptr) return outcome;
    std::array<char, 4096> buffer{};
    while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) outcome.out += buffer.data();
    const int status = pclose(pipe);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.error = read(error_file);
    return outcome;
  }
  static Outcome run_ranks(int ranks, const std::string& words) {
    return run(words, kMpiEnvironment + kMpiexec + " -n " + std::to_string(ranks) + " ");
  }
  static std::string small_run() {
    return "train --train-data data/train --layers 1 --hidden 32 --heads 2 --intermediate 64 --vocab 160 --max-positions 32 --precision "
           "f32 "
           "--threads 1 --seed 5 ";
  }
};

TEST_F(Program, SaysWhatItIs) {
  const Outcome outcome = run("--version");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("flashbert "), HasSubstr("compiler"), HasSubstr("cuda"), HasSubstr("HDF5"), HasSubstr("MPI"),
                                 HasSubstr("oneDNN")));
}

TEST_F(Program, EveryCommandHasHelpWithAnExample) {
  for (const char* const command : {"train", "eval", "data synth", "data inspect", "checkpoint inspect", "checkpoint convert", "bench gemm",
                                    "report", "report rules"}) {
    const Outcome outcome = run(std::string(command) + " --help");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("Example"), HasSubstr("--log-level"))) << command;
  }
}

TEST_F(Program, UnknownWordsExitWithTwoAndNameTheNearest) {
  for (const auto& [words, nearest] :
       std::initializer_list<std::pair<const char*, const char*>>{{"trian --lr 1", "train"},
                                                                  {"train --max-stps 3", "--max-steps"},
                                                                  {"data insect x", "inspect"},
                                                                  {"train --global_batch=4", "--global-batch"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_THAT(outcome.error, HasSubstr("nearest known is " + std::string(nearest))) << words;
    EXPECT_EQ(outcome.out, "") << words;
  }
}

TEST_F(Program, NumbersAreReadWholeOrRefused) {
  EXPECT_THAT(run(small_run() + "--max-samples 3e6 --dry-run").out, HasSubstr("3000000"));
  for (const char* const value : {"2.5", "3e", "-5", "99999999999999999999999"}) {
    const Outcome outcome = run(small_run() + "--dry-run --max-samples " + value);
    EXPECT_EQ(outcome.exit_code, 2) << value;
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("max-samples"), HasSubstr(value))) << value;
  }
}

TEST_F(Program, ABareFlagIsTrue) {
  EXPECT_THAT(run(small_run() + "--max-steps 1 --dry-run --eval-at-start --keep 3").out,
              ContainsRegex("eval_at_start = true +# command line"));
  EXPECT_THAT(run(small_run() + "--max-steps 1 --dry-run true --eval-at-start false").out,
              ContainsRegex("eval_at_start = false +# command line"));
  const Outcome refused = run(small_run() + "--max-steps 1 --dry-run --tensorboard");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, HasSubstr("tensorboard"));
}

TEST_F(Program, OriginsFollowTheOrderOfTheSources) {
  std::ofstream(folder() / "run.toml") << "micro_batch = 4\nglobal_batch = 16\n";
  const std::string words = small_run() + "--max-steps 1 --dry-run --config run.toml ";
  EXPECT_THAT(run(words + "--micro-batch 8", "FLASHBERT_MICRO_BATCH=2 ").out, ContainsRegex("micro_batch = 8 +# command line"));
  const Outcome both = run(words, "FLASHBERT_MICRO_BATCH=2 ");
  EXPECT_THAT(both.out, ContainsRegex("micro_batch = 2 +# environment FLASHBERT_MICRO_BATCH, hides 4 from file run.toml"));
  EXPECT_THAT(both.error, HasSubstr("hides 4 from file run.toml"));
  EXPECT_THAT(run(words).out, ContainsRegex("micro_batch = 4 +# file run.toml"));
  const std::string without_file = small_run() + "--max-steps 1 --dry-run --global-batch 16 ";
  EXPECT_THAT(run(without_file, "FLASHBERT_MICRO_BATCH=2 ").out, ContainsRegex("micro_batch = 2 +# environment FLASHBERT_MICRO_BATCH"));
}

TEST_F(Program, TheStoredConfigurationRunsAgain) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  const Outcome first = run(small_run() + "--global-batch 8 --max-steps 2 --out first");
  ASSERT_EQ(first.exit_code, 0) << first.error;
  const Outcome second = run("train --config first/config.toml --out second");
  ASSERT_EQ(second.exit_code, 0) << second.error;
  const auto digest = [](const std::string& report) { return nlohmann::json::parse(report).at("digest").get<std::string>(); };
  EXPECT_EQ(digest(read(folder() / "first/report.json")), digest(read(folder() / "second/report.json")));
}

/// metrics.jsonl without what the clock says.
std::string timeless(const std::string& metrics) {
  std::istringstream lines(metrics);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    auto json = nlohmann::json::parse(line);
    json.erase("step_s");
    json.erase("wait_s");
    text += json.dump() + "\n";
  }
  return text;
}

TEST_F(Program, TheStoredConfigurationRepeatsARunThatLeftAllOpen) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  const Outcome first =
      run("train --train-data data/train --layers 1 --hidden 32 --heads 2 --intermediate 64 --vocab 160 --max-positions 32 --max-steps 3 "
          "--global-batch 512 --out open");
  ASSERT_EQ(first.exit_code, 0) << first.error;
  const std::string stored = read(folder() / "open/config.toml");
  const auto report = nlohmann::json::parse(read(folder() / "open/report.json"));
  EXPECT_THAT(stored, ContainsRegex("\nseed = " + std::to_string(report.at("seed").get<std::uint64_t>()) +
                                    " +# asked: 0 \\(default\\); drawn from the system\n"));
  EXPECT_THAT(stored, ContainsRegex("\nthreads = " + std::to_string(report.at("threads").get<int>()) + " +# asked: 0 \\(default\\); "));
  EXPECT_THAT(stored, HasSubstr("\nprecision = \"" + report.at("precision").get<std::string>() + "\" "));
  EXPECT_THAT(stored, ContainsRegex("\ndevice = \"cpu\" +# asked: auto \\(default\\); "));
  EXPECT_THAT(stored, ContainsRegex("\nmicro_batch = 256 +# asked: 0 \\(default\\); .*8192 tokens"));
  EXPECT_THAT(stored, ContainsRegex("\naccum = 2 +# asked: 0 \\(default\\); "));
  EXPECT_THAT(first.error, HasSubstr(stored));

  const Outcome second = run("train --config open/config.toml --out again");
  ASSERT_EQ(second.exit_code, 0) << second.error;
  EXPECT_EQ(nlohmann::json::parse(read(folder() / "again/report.json")).at("digest"), report.at("digest"));
  const std::string metrics = timeless(read(folder() / "open/metrics.jsonl"));
  EXPECT_EQ(count(metrics, "\n"), 3);
  EXPECT_EQ(timeless(read(folder() / "again/metrics.jsonl")), metrics);
}

TEST_F(Program, AMistakeIsToldAloneWithoutTheSettings) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  for (const char* const words :
       {"train --resume auto --train-data data/train --max-steps 1 --out x", "train --train-data none --max-steps 1 --out x",
        "eval --eval-data data/eval", "eval --eval-data data/eval --init data/train/part_00000_of_00002.hdf5"}) {
    const Outcome refused = run(words);
    EXPECT_NE(refused.exit_code, 0) << words;
    EXPECT_THAT(refused.error, Not(HasSubstr("global_batch = "))) << words;
    const std::string last = refused.error.substr(refused.error.rfind('\n', refused.error.size() - 2) + 1);
    EXPECT_THAT(last, HasSubstr("error")) << refused.error;
  }
  EXPECT_EQ(count(run("train --resume auto --train-data data/train --max-steps 1 --out x").error, "\n"), 1);
  EXPECT_EQ(run("train --resume auto --train-data data/train --max-steps 1 --dry-run").out, "");
}

TEST_F(Program, RefusesAFolderThatHoldsResults) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  ASSERT_EQ(run(small_run() + "--global-batch 8 --max-steps 1 --out held").exit_code, 0);
  const Outcome refused = run(small_run() + "--global-batch 8 --max-steps 1 --out held");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, HasSubstr("held"));
  EXPECT_EQ(run(small_run() + "--global-batch 8 --max-steps 1 --out held --overwrite").exit_code, 0);
}

TEST_F(Program, MissingFilesExitWithThree) {
  for (const char* const words : {"data inspect none.hdf5", "checkpoint inspect none.safetensors", "train --config none.toml"}) {
    EXPECT_EQ(run(words).exit_code, 3) << words;
  }
  EXPECT_EQ(run("train --train-data none --max-steps 1 --out x --layers 1 --hidden 32 --heads 2 --intermediate 64").exit_code, 3);
}

TEST_F(Program, InspectTellsALayoutInOneJsonLine) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  const Outcome outcome = run("data inspect data/train/part_00000_of_00002.hdf5 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(count(outcome.out, "\n"), 1);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("layout"), "varlength");
  EXPECT_EQ(json.at("samples"), 150);
  EXPECT_EQ(json.at("datasets").size(), 5U);
  EXPECT_EQ(json.at("fingerprints").at("samples_sha256").get<std::string>().size(), 64U);
  const Outcome rows = run("data inspect data/train/part_00000_of_00002.hdf5 --rows 1:3");
  EXPECT_EQ(count(rows.out, "\nrow "), 2) << rows.out;
  const auto with_rows = nlohmann::json::parse(run("data inspect data/train/part_00000_of_00002.hdf5 --rows 1:3 --json").out);
  ASSERT_EQ(with_rows.at("rows").size(), 2U);
  EXPECT_EQ(with_rows["rows"][0]["row"], 1);
  EXPECT_EQ(with_rows["rows"][0]["token_ids"].size(), with_rows["rows"][0]["segment_ids"].size());
  for (const char* const wrong : {"1", "3:1", "0:151", "a:b", "-1:2"}) {
    const Outcome refused = run(std::string("data inspect data/train/part_00000_of_00002.hdf5 --json --rows ") + wrong);
    EXPECT_EQ(refused.exit_code, 2) << wrong << refused.out;
    EXPECT_EQ(refused.out, "");
  }
}

TEST_F(Program, ConvertWritesTheFormatAskedForOrSaysWhyNot) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  ASSERT_EQ(run(small_run() + "--max-steps 1 --save-at-end --overwrite --out saved").exit_code, 0);
  const std::string convert = "checkpoint convert saved/checkpoints/step-00000001 ";
  EXPECT_EQ(run(convert + "plain.bin --format safetensors").exit_code, 0);
  EXPECT_EQ(run(convert + "folder.d --format huggingface").exit_code, 0);
  for (const char* const existing :
       {"plain.bin --format safetensors", "folder.d", "data/train/part_00000_of_00002.hdf5 --format safetensors"}) {
    const Outcome refused = run(convert + existing);
    EXPECT_EQ(refused.exit_code, 2) << existing;
    EXPECT_THAT(refused.error, HasSubstr("--overwrite"));
    EXPECT_EQ(run("data inspect data/train/part_00000_of_00002.hdf5").exit_code, 0);
  }
  fs::create_directories(folder() / "configured");
  std::ofstream(folder() / "configured/config.json") << "{}";
  EXPECT_EQ(run(convert + "configured").exit_code, 2);
  EXPECT_EQ(read(folder() / "configured/config.json"), "{}");
  EXPECT_EQ(run(convert + "plain.bin --format safetensors --overwrite").exit_code, 0);
  EXPECT_EQ(run(convert + "saved/checkpoints/step-00000001 --overwrite").exit_code, 2);  // its own input
  for (const char* const source : {"plain.bin", "folder.d"}) {
    const auto tensors = nlohmann::json::parse(run(std::string("checkpoint inspect --json ") + source).out).at("tensors");
    EXPECT_EQ(tensors, nlohmann::json::parse(run("checkpoint inspect --json saved/checkpoints/step-00000001").out).at("tensors")) << source;
  }
  for (const auto& [arguments, word] : {std::pair{"folder.d --format safetensors", "is a folder"},
                                        {"plain.bin --format huggingface", "is a file"},
                                        {"unclear.bin", "--format"},
                                        {"x.safetensors --format pickle", "pickle"},
                                        {"x.safetensors --vocab-size -5", "--vocab-size"},
                                        {"x.safetensors --vocab-size 2.5", "--vocab-size"}}) {
    const Outcome refused = run(convert + arguments);
    EXPECT_EQ(refused.exit_code, 2) << arguments << refused.error;
    EXPECT_THAT(refused.error, HasSubstr(word)) << arguments;
  }
}

TEST_F(Program, ContradictingBatchesGiveOneMessageAJob) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  const Outcome outcome = run_ranks(2, small_run() + "--max-steps 1 --dry-run --global-batch 448 --micro-batch 8 --accum 4");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.error;
  EXPECT_EQ(count(outcome.error, "= 64"), 1) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("448"));
}

TEST_F(Program, TwoRanksTrainAndStoreOneConfiguration) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  const Outcome outcome = run_ranks(2, small_run() + "--global-batch 8 --micro-batch 2 --max-steps 2 --out ranks");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const std::string stored = read(folder() / "ranks/config.toml");
  EXPECT_THAT(stored, HasSubstr("global_batch = 8"));
  EXPECT_THAT(stored, ContainsRegex("accum = 2 +# asked: 0 .*2 ranks"));
  const Outcome shared = run_ranks(2, small_run() + "--global-batch 8 --max-steps 1 --threads 0 --seed 0 --out shared");
  ASSERT_EQ(shared.exit_code, 0) << shared.error;
  EXPECT_THAT(read(folder() / "shared/config.toml"), ContainsRegex("threads = [1-9][0-9]* +# asked: 0 .*rank 0; other ranks"));
  EXPECT_THAT(outcome.error, HasSubstr("micro-batch 2 x 2 x 2 ranks"));
}

TEST_F(Program, ListingsFailWhereTheyCannotBeWrittenAndEndQuietlyWithTheirReader) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  for (const char* const words : {"data inspect data/train/part_00000_of_00002.hdf5",
                                  "data inspect data/train/part_00000_of_00002.hdf5 --rows 0:100", "--help", "--version"}) {
    const Outcome full = run(std::string(words) + " >/dev/full");
    EXPECT_EQ(full.exit_code, 4) << words << full.error;
  }
  const Outcome cut = run("data inspect data/train/part_00000_of_00002.hdf5 --rows 0:100 | head -n 1; exit ${PIPESTATUS[0]}",
                          "bash -c 'exec \"$0\" \"$@\"' ");
  EXPECT_THAT(cut.error, Not(HasSubstr("Broken pipe")));
}

TEST_F(Program, SynthReplacesShardsOnlyWhereTold) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  const std::string synth = "data synth --out data --samples 300 --eval-samples 20 --vocab 160 --seq-len 32 --shards 2";
  EXPECT_EQ(run(synth).exit_code, 2);
  EXPECT_EQ(run(synth + " --overwrite").exit_code, 0);
}

TEST_F(Program, CommandsWithoutUseForRanksRunOnce) {
  const Outcome outcome = run_ranks(2, "data synth --out once --samples 30 --eval-samples 20 --vocab 160 --seq-len 32 --shards 2");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(count(outcome.out, "best possible"), 1);
}

TEST_F(Program, ATraceReplacesNoInputAndNothingUnasked) {
  ASSERT_EQ(made().exit_code, 0) << made().error;
  const std::string shard = "data/train/part_00000_of_00002.hdf5";
  const std::string before = read(folder() / shard);
  const std::string train = small_run() + "--max-steps 1 --out traced --trace-samples ";
  EXPECT_EQ(run(train + shard).exit_code, 2);
  EXPECT_EQ(run(train + shard + " --overwrite").exit_code, 2);
  EXPECT_EQ(run(train + "traced/mllog.txt").exit_code, 2);
  EXPECT_TRUE(read(folder() / shard) == before);
  EXPECT_EQ(run(train + "trace.txt").exit_code, 0);
  EXPECT_EQ(run(train + "trace.txt").exit_code, 2);
  EXPECT_EQ(run(train + "trace.txt --overwrite").exit_code, 0);
}

TEST_F(Program, BenchRunsUnderALauncherToo) {
  const Outcome outcome = run_ranks(1, "bench gemm --rows 64 --in 64 --out 64 --seconds 0 --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("\"instruction_set\""));
}

TEST_F(Program, RefusesToTrainAloneWhereTheSchedulerStartedFour) {
  const std::string slurm = "SLURM_NTASKS=4 SLURM_PROCID=2 SLURM_STEP_ID=0 " + kMpiEnvironment;
  const Outcome refused = run(small_run() + "--max-steps 1 --out alone", slurm);
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.error, AllOf(HasSubstr("1 rank"), HasSubstr("announced 4")));
  EXPECT_FALSE(fs::exists(folder() / "alone"));
  EXPECT_EQ(run(small_run() + "--max-steps 1 --dry-run", slurm + "FLASHBERT_ALLOW_SINGLE=1 ").exit_code, 0);
}

}  // namespace
}  // namespace flashbert
