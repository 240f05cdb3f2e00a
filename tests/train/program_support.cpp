#include "program_support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

class RemoveWorkFolder : public ::testing::Environment {
 public:
  void TearDown() override { fs::remove_all(work_folder()); }
};
const auto* const kCleanUp = ::testing::AddGlobalTestEnvironment(new RemoveWorkFolder);

}  // namespace

nlohmann::json TrainedRun::report() const {
  std::ifstream file(out / "report.json");
  return nlohmann::json::parse(file, nullptr, false);
}

std::vector<nlohmann::json> TrainedRun::metrics() const {
  std::ifstream file(out / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<nlohmann::json> TrainedRun::step_metrics() const {
  auto lines = metrics();
  std::erase_if(lines, [](const nlohmann::json& line) { return !line.contains("step"); });
  return lines;
}

std::vector<nlohmann::json> TrainedRun::log(const std::string& key) const {
  std::ifstream file(out / "mllog.txt");
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(file, line);) {
    auto record = nlohmann::json::parse(line.substr(line.find('{')));
    if (record["key"] == key) records.push_back(std::move(record));
  }
  return records;
}

void TrainedRun::expect_one_stop(const std::string& wanted) const {
  const auto stops = log("run_stop");
  ASSERT_EQ(stops.size(), 1U) << output;
  EXPECT_EQ(stops[0]["metadata"]["status"], wanted);
}

const fs::path& work_folder() {
  static const fs::path folder = [] {
    const fs::path path = fs::temp_directory_path() / fmt::format("flashbert-program-{}", ::getpid());
    fs::create_directories(path);
    return path;
  }();
  return folder;
}

fs::path synth_data(const std::string& extra) {
  const fs::path data = work_folder() / fmt::format("data{:x}", std::hash<std::string>{}(extra));
  if (!fs::exists(data)) {
    const CommandResult made = run_command(fmt::format("{} data synth --out {} {}", FLASHBERT_PROGRAM, data.string(), extra));
    EXPECT_EQ(made.status, 0) << made.output;
    std::ofstream(data / "said.txt") << made.output;
  }
  return data;
}

double best_accuracy(const fs::path& data) {
  std::ifstream said(data / "said.txt");
  for (std::string line; std::getline(said, line);) {
    if (line.starts_with("best possible masked-LM accuracy")) return std::stod(line.substr(line.rfind(' ')));
  }
  ADD_FAILURE() << "data synth told no best accuracy";
  return 0.0;
}

fs::path small_data() { return synth_data("--samples 2000 --eval-samples 200 --shards 2"); }

TrainedRun train(const std::string& name, const std::string& options, const std::string& launcher) {
  TrainedRun run{.status = -1, .output = {}, .out = work_folder() / name};
  const CommandResult result =
      run_command(fmt::format("{} {} train --out {} --overwrite {} 2>&1", launcher, FLASHBERT_PROGRAM, run.out.string(), options));
  run.status = result.status;
  run.output = result.output;
  return run;
}

std::string small_run(const fs::path& data) {
  return fmt::format(
      "--layers 2 --hidden 64 --heads 2 --intermediate 128 --vocab 1024 --max-positions 128 --train-data {0}/train --eval-data {0}/eval "
      "--lr 5e-3 --global-batch 16 --seed 7 --precision f32",
      data.string());
}

std::string demo_run(const fs::path& data) {
  return fmt::format("--config {}/configs/demo.toml --train-data {}/train --eval-data {}/eval", FLASHBERT_SOURCE_DIR, data.string(),
                     data.string());
}

std::string mpirun(int ranks) { return fmt::format("{} --allow-run-as-root --oversubscribe -np {}", FLASHBERT_MPIEXEC, ranks); }

}  // namespace flashbert::testing
