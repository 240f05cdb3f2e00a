// Every value that a run tells, against what it was asked, what the test counts, and the test's own clock. Two runs that share no value, so
// that none can be hard-coded.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <sched.h>
#include <toml++/toml.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

#include "support/plain_safetensors.h"
#include "told_run.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Two clocks read to whole milliseconds differ by less than one each.
constexpr double kWholeMilliseconds_s = 2e-3;

double wall_ms() {
  return static_cast<double>(
             std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count()) /
         1e3;
}

void start(ToldRun& told, const std::string& name) {
  const fs::path trace = work_folder() / (name + ".trace");
  told.asked["train-data"] = (told.data / "train").string();
  told.asked["eval-data"] = (told.data / "eval").string();
  told.asked["trace-samples"] = trace.string();
  std::string options;
  for (const auto& [key, value] : told.asked.items()) {
    options += fmt::format(" --{}={}", key, value.is_string() ? shell_word(value.get<std::string>()) : value.dump());
  }
  told.begin_ms = wall_ms();
  told.run = train(name, options);
  told.end_ms = wall_ms();
}

class ToldValues : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    told_ = GetParam() == "deep" ? deep_run() : flat_run();
    start(told_, "told-" + GetParam());
    ASSERT_EQ(told_.run.status, 1) << told_.run.output;  // below the target
    std::ifstream log(told_.run.out / "mllog.txt");
    for (std::string line; std::getline(log, line);) {
      ASSERT_TRUE(line.starts_with(":::MLLOG {")) << line;
      records_.push_back(Json::parse(line.substr(9)));
    }
    ASSERT_FALSE(records_.empty());
    report_ = told_.run.report();
    steps_ = told_.run.step_metrics();
    ASSERT_EQ(std::ssize(steps_), told_.steps);
    evaluations_ = told_.run.metrics();
    std::erase_if(evaluations_, [](const Json& line) { return line.contains("step"); });
    ASSERT_EQ(evaluations_.size(), told_.evaluated_at.size());
  }

  /// Wall clock of the only, or of the last, record with this key in seconds.
  [[nodiscard]] double time_s(const std::string& key) const {
    double found = NAN;
    for (const Json& record : records_) found = record["key"] == key ? record["time_ms"].get<double>() / 1e3 : found;
    return found;
  }
  [[nodiscard]] Json progress(std::int64_t samples) const {
    return {{"epoch_num", samples}, {"step_num", samples / told_.batch()}, {"samples_count", samples}};
  }

  ToldRun told_;
  std::vector<Json> records_, steps_, evaluations_;
  Json report_;
};

TEST_P(ToldValues, EveryRecordOfTheLogIsWhatRan) {
  std::vector<Json> want;
  const auto add = [&](const char* type, const char* key, const Json& value, const Json& metadata = Json::object()) {
    want.push_back({{"type", type}, {"key", key}, {"value", value}, {"metadata", metadata}});
  };
  const auto point = [&](const char* key, const Json& value) { add("POINT_IN_TIME", key, value); };
  const Json& asked = told_.asked;
  point("cache_clear", true);
  add("INTERVAL_START", "init_start", nullptr);
  point("submission_benchmark", "bert");
  for (const auto& [record, key] :
       {std::pair{"submission_org", "submission-org"}, std::pair{"submission_division", "submission-division"},
        std::pair{"submission_status", "submission-status"}, std::pair{"submission_platform", "submission-platform"},
        std::pair{"seed", "seed"}, std::pair{"global_batch_size", "global-batch"}, std::pair{"d_batch_size", "micro-batch"}})
    point(record, asked.at(key));
  point("gradient_accumulation_steps", told_.accumulation);
  point("max_sequence_length", told_.seq_len);
  point("max_predictions_per_seq", told_.predictions);
  point("opt_name", "lamb");
  for (const auto& [record, key] :
       {std::pair{"opt_base_learning_rate", "lr"}, std::pair{"opt_epsilon", "epsilon"}, std::pair{"opt_lamb_epsilon", "epsilon"},
        std::pair{"opt_learning_rate_training_steps", "lr-total-steps"}, std::pair{"opt_learning_rate_warmup_steps", "warmup-steps"},
        std::pair{"num_warmup_steps", "warmup-steps"}, std::pair{"start_warmup_step", "start-warmup-step"},
        std::pair{"opt_lamb_beta_1", "beta1"}, std::pair{"opt_lamb_beta_2", "beta2"},
        std::pair{"opt_lamb_weight_decay_rate", "weight-decay"}, std::pair{"opt_lamb_learning_rate_decay_poly_power", "lr-power"},
        std::pair{"opt_gradient_clip_order", "clip"}, std::pair{"loss_normalisation", "loss-normalisation"}})
    point(record, asked.at(key));
  point("eval_samples", told_.eval_samples);
  for (const auto& names : parameter_names(told_.key<std::int64_t>("layers"))) {
    add("POINT_IN_TIME", "weights_initialization", nullptr, {{"tensor", names.second}});
  }
  Json block = progress(0);
  block.update({{"first_epoch_num", 1}, {"epoch_count", 1}});
  add("INTERVAL_END", "init_stop", nullptr);
  add("INTERVAL_START", "run_start", nullptr);
  add("INTERVAL_START", "epoch_start", nullptr, progress(0));
  add("INTERVAL_START", "block_start", nullptr, block);
  for (std::size_t i = 0; i < evaluations_.size(); ++i) {
    const Json at = progress(told_.evaluated_at[i]);
    add("INTERVAL_START", "eval_start", nullptr, at);
    add("POINT_IN_TIME", "eval_accuracy", evaluations_[i]["eval_accuracy"], at);
    add("INTERVAL_END", "eval_stop", nullptr, at);
  }
  const std::int64_t samples = told_.steps * told_.batch();
  block.update(progress(samples));
  add("INTERVAL_END", "block_stop", nullptr, block);
  add("INTERVAL_END", "epoch_stop", nullptr, progress(samples));
  point("train_samples", samples);
  add("INTERVAL_END", "run_stop", nullptr, {{"status", "aborted"}});

  ASSERT_EQ(records_.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    Json metadata = records_[i]["metadata"];
    EXPECT_EQ(metadata.erase("file") + metadata.erase("lineno"), 2U) << records_[i];
    EXPECT_EQ(records_[i]["event_type"], want[i]["type"]) << records_[i];
    EXPECT_EQ(records_[i]["key"], want[i]["key"]);
    EXPECT_EQ(records_[i]["value"], want[i]["value"]) << records_[i];
    EXPECT_EQ(metadata, want[i]["metadata"]) << records_[i];
  }
}

TEST_P(ToldValues, TimesOfTheLogLieInTheTestsOwnAndNeverGoBack) {
  double before = told_.begin_ms - 1e3 * kWholeMilliseconds_s;
  for (const Json& record : records_) {
    EXPECT_GE(record["time_ms"].get<double>(), before) << record;
    before = record["time_ms"].get<double>();
  }
  EXPECT_LE(before, told_.end_ms);
}

TEST_P(ToldValues, EveryLineOfTheMetricsIsWhatRan) {
  std::map<std::string, std::vector<RowCounts>> shards;
  std::ifstream trace(told_.key<std::string>("trace-samples"));
  std::vector<RowCounts> counted(steps_.size());
  std::int64_t step = -1, slot = -1, rank = -1, row = -1, lines = 0;
  for (std::string shard; trace >> step >> slot >> rank >> shard >> row; ++lines) {
    ASSERT_EQ(step, lines / told_.batch());
    ASSERT_EQ(slot, lines % told_.batch());
    ASSERT_EQ(rank, 0);
    if (!shards.contains(shard)) shards[shard] = shard_rows(told_.data / "train" / shard);
    const RowCounts& sample = shards[shard].at(static_cast<std::size_t>(row));
    counted.at(static_cast<std::size_t>(step)).tokens += sample.tokens;
    counted.at(static_cast<std::size_t>(step)).masked += sample.masked;
  }
  ASSERT_EQ(lines, told_.steps * told_.batch());

  const auto warm_up = told_.key<double>("warmup-steps");
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Json& line = steps_[i];
    const auto s = static_cast<double>(i);
    const double since = s - told_.key<double>("start-warmup-step");
    const double share =
        since < warm_up ? since / warm_up : std::pow(1.0 - s / told_.key<double>("lr-total-steps"), told_.key<double>("lr-power"));
    EXPECT_EQ(line["step"], i);
    EXPECT_EQ(line["samples"], (static_cast<std::int64_t>(i) + 1) * told_.batch());
    // Told as the f32 that it is used as.
    EXPECT_NEAR(line["lr"].get<double>(), told_.key<double>("lr") * share, told_.key<double>("lr") * share * 0x1p-23) << i;
    EXPECT_EQ(line["tokens"], counted[i].tokens) << i;
    EXPECT_EQ(line["masked"], counted[i].masked) << i;
    EXPECT_EQ(line["loss"].get<double>(), line["mlm_loss"].get<double>() + line["nsp_loss"].get<double>()) << i;
    EXPECT_GT(line["grad_norm"].get<double>(), 0.0) << i;
    EXPECT_GE(line["wait_s"].get<double>(), 0.0);
    EXPECT_GE(line["step_s"].get<double>(), line["wait_s"].get<double>());
    tokens += counted[i].tokens;
  }
  EXPECT_DOUBLE_EQ(report_["filler_share"].get<double>(),
                   1.0 - static_cast<double>(tokens) / static_cast<double>(told_.steps * told_.batch() * told_.seq_len));

  std::int64_t masked = 0;
  std::int64_t left = told_.eval_samples;
  std::set<fs::path> evaluation_shards;
  for (const auto& entry : fs::directory_iterator(told_.data / "eval")) evaluation_shards.insert(entry.path());
  for (const fs::path& shard : evaluation_shards) {
    for (const RowCounts& sample : shard_rows(shard)) masked += left-- > 0 ? sample.masked : 0;
  }
  for (std::size_t i = 0; i < evaluations_.size(); ++i) {
    const Json& line = evaluations_[i];
    EXPECT_EQ(line["samples"], told_.evaluated_at[i]);
    EXPECT_EQ(line["eval_samples"], told_.eval_samples);
    EXPECT_EQ(line["eval_masked"], masked);
    EXPECT_EQ(line["eval_accuracy"].get<double>(), line["eval_correct"].get<double>() / static_cast<double>(masked));
  }
}

TEST_P(ToldValues, EveryKeyOfTheReportIsWhatRan) {
  const std::int64_t samples = told_.steps * told_.batch();
  const Json& last = evaluations_.back();
  Json curve = Json::array();
  for (const Json& line : evaluations_) curve.push_back({{"samples", line["samples"]}, {"accuracy", line["eval_accuracy"]}});
  // What was computed in, which only processors with products of bf16 do as asked.
  const char* const cap = std::getenv("FLASHBERT_MAX_ISA");
  const bool capped = cap != nullptr && *cap != '\0' && std::string(cap) != "avx512_bf16";
  const bool bf16 = __builtin_cpu_supports("avx512bf16") != 0 && !capped;
  const std::string precision = bf16 ? told_.key<std::string>("precision") : "f32";
  const std::vector<std::pair<std::string, Json>> facts = {{"status", "aborted"},
                                                           {"target_reached", false},
                                                           {"target_accuracy", told_.asked["target-accuracy"]},
                                                           {"accuracy", last["eval_accuracy"]},
                                                           {"steps", told_.steps},
                                                           {"train_samples", samples},
                                                           {"eval_samples", told_.eval_samples},
                                                           {"micro_batches_without_mask", 0},
                                                           {"global_batch", told_.batch()},
                                                           {"ranks", 1},
                                                           {"threads", told_.asked["threads"]},
                                                           {"precision", precision},
                                                           {"device", "cpu"},
                                                           {"seed", told_.asked["seed"]},
                                                           {"config", "config.toml"},
                                                           {"curve", curve}};
  for (const auto& [key, value] : facts) EXPECT_EQ(report_[key], value) << key;
  const bool by_steps = told_.key<int>("max-steps") > 0;
  const std::string limit = by_steps ? fmt::format("max-steps {} reached", told_.asked["max-steps"].dump())
                                     : fmt::format("max-samples {} reached", told_.asked["max-samples"].dump());
  EXPECT_TRUE(report_["reason"].get<std::string>().starts_with(limit)) << report_["reason"];

  // The same doubles added in the same order as the program's; each quotient is rounded once.
  double all_s = 0.0, waiting_s = 0.0, timed_s = 0.0, timed_tokens = 0.0;
  for (const Json& line : steps_) {
    all_s += line["step_s"].get<double>();
    waiting_s += line["wait_s"].get<double>();
    timed_s += line["step"] == 0 ? 0.0 : line["step_s"].get<double>();
    timed_tokens += line["step"] == 0 ? 0.0 : line["tokens"].get<double>();
  }
  const Json& time = report_["time"];
  EXPECT_DOUBLE_EQ(report_["seq_per_s"].get<double>(), static_cast<double>(samples - told_.batch()) / timed_s);
  EXPECT_DOUBLE_EQ(report_["tokens_per_s"].get<double>(), timed_tokens / timed_s);
  EXPECT_DOUBLE_EQ(time["steps_s"].get<double>(), all_s);
  EXPECT_DOUBLE_EQ(time["wait_s"].get<double>(), waiting_s);

  // Between which records each duration begins and ends.
  const auto run_s = report_["run_s"].get<double>();
  EXPECT_DOUBLE_EQ(report_["minutes"].get<double>() * 60.0, run_s);
  EXPECT_LE(run_s, time_s("block_stop") - time_s("run_start") + kWholeMilliseconds_s);
  EXPECT_GE(run_s, time_s("eval_stop") - time_s("epoch_start") - kWholeMilliseconds_s);
  const auto initialisation_s = report_["initialisation_s"].get<double>();
  EXPECT_LE(initialisation_s, time_s("run_start") - time_s("cache_clear") + kWholeMilliseconds_s);
  EXPECT_GE(initialisation_s, time_s("init_stop") - time_s("init_start") - kWholeMilliseconds_s);
  EXPECT_GE(time["first_step_s"].get<double>(), steps_[0]["step_s"].get<double>());
  EXPECT_LE(time["first_step_s"].get<double>() + timed_s, run_s);
  EXPECT_GT(time["evaluation_s"].get<double>(), 0.0);
  EXPECT_GE(run_s, all_s + time["evaluation_s"].get<double>());
  EXPECT_GT(time["saving_s"].get<double>(), 0.0);
  EXPECT_LE(run_s + initialisation_s + (by_steps ? 0.0 : time["saving_s"].get<double>()), (told_.end_ms - told_.begin_ms) / 1e3);
}

TEST_P(ToldValues, SavesAreThoseOfTheirStepsAndTheDigestIsOfTheLast) {
  std::set<std::string> names, want = {"latest"};
  for (const auto& entry : fs::directory_iterator(told_.run.out / "checkpoints")) names.insert(entry.path().filename().string());
  for (const std::int64_t step : told_.saved_at) want.insert(fmt::format("step-{:08d}", step));
  EXPECT_EQ(names, want);
  const std::string newest = fmt::format("step-{:08d}", told_.saved_at.back());
  std::string latest;
  std::ifstream(told_.run.out / "checkpoints/latest") >> latest;
  EXPECT_EQ(latest, newest);
  for (const std::int64_t step : told_.saved_at) {
    std::ifstream state(told_.run.out / "checkpoints" / fmt::format("step-{:08d}", step) / "state.json");
    EXPECT_EQ(Json::parse(state), (Json{{"step", step}, {"samples", step * told_.batch()}, {"seed", told_.asked["seed"]}}));
  }

  std::ifstream config_file(told_.run.out / "checkpoints" / newest / "config.json");
  const Json config = Json::parse(config_file);
  for (const auto& [name, key] :
       {std::pair{"num_hidden_layers", "layers"}, std::pair{"hidden_size", "hidden"}, std::pair{"num_attention_heads", "heads"},
        std::pair{"intermediate_size", "intermediate"}, std::pair{"vocab_size", "vocab"},
        std::pair{"max_position_embeddings", "max-positions"}, std::pair{"type_vocab_size", "type-vocab"},
        std::pair{"hidden_dropout_prob", "hidden-dropout"}, std::pair{"attention_probs_dropout_prob", "attention-dropout"}})
    EXPECT_EQ(config[name], told_.asked[key]) << name;

  const PlainSafetensors weights = read_plain(told_.run.out / "checkpoints" / newest / "model.safetensors");
  std::string bytes;
  for (const auto& parameter : parameter_names(told_.key<std::int64_t>("layers"))) {
    for (const double value : weights.tensors.at(parameter.first).values) plain::append(bytes, static_cast<float>(value));
  }
  unsigned char raw[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  ASSERT_EQ(EVP_Digest(bytes.data(), bytes.size(), raw, &size, EVP_sha256(), nullptr), 1);
  std::string digest;
  for (unsigned i = 0; i < size; ++i) digest += fmt::format("{:02x}", raw[i]);
  EXPECT_EQ(report_["digest"], digest);
}

TEST_P(ToldValues, TheStoredConfigurationHoldsEveryValueAsItRan) {
  const toml::table stored = toml::parse_file((told_.run.out / "config.toml").string());
  // Not asked for here, or run as something else than what was asked.
  std::map<std::string, std::string> others = {{"out", told_.run.out.string()},
                                               {"init", "random"},
                                               {"resume", ""},
                                               {"device", "cpu"},
                                               {"precision", report_["precision"].get<std::string>()}};
  for (const auto& [toml_key, node] : stored) {
    std::string key(toml_key.str());
    std::replace(key.begin(), key.end(), '_', '-');
    if (key == "tensorboard") {
      EXPECT_FALSE(node.value<bool>().value_or(true));
    } else if (others.contains(key)) {
      EXPECT_EQ(node.value<std::string>().value_or("?"), others[key]) << key;
    } else if (!told_.asked.contains(key)) {
      ADD_FAILURE() << "this test asks nothing of " << key;
    } else if (told_.asked[key].is_boolean()) {
      EXPECT_EQ(node.value<bool>(), told_.key<bool>(key)) << key;
    } else if (told_.asked[key].is_string()) {
      EXPECT_EQ(node.value<std::string>(), told_.key<std::string>(key)) << key;
    } else if (key.ends_with("dropout")) {
      EXPECT_EQ(node.value<float>(), told_.key<float>(key)) << key;  // held as f32
    } else {
      EXPECT_EQ(node.value<double>(), told_.key<double>(key)) << key;
    }
  }
  EXPECT_EQ(stored.size(), told_.asked.size() + others.size());  // tensorboard is in neither, precision in both
}

INSTANTIATE_TEST_SUITE_P(Runs, ToldValues, ::testing::Values("deep", "flat"),
                         [](const ::testing::TestParamInfo<std::string>& run) { return run.param; });

TEST(ToldSuccess, TheOfficialReaderSeesTheSamplesAndTheBatchThatRan) {
  // 30 samples are reached by the third batch of 12, in micro-batches of 4.
  const TrainedRun run = train("told-success", small_run(small_data()) +
                                                   " --global-batch 12 --micro-batch 4 --eval-every-samples 30 --eval-samples 40 "
                                                   "--target-accuracy 0 --max-steps 9");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(run.report()["status"], "success");
  EXPECT_EQ(run.report()["target_reached"], true);
  EXPECT_EQ(run.report()["steps"], 3);
  run.expect_one_stop("success");
  FLASHBERT_CHECKER_OR_SKIP(python);
  const auto seen = official_checks(python, fmt::format("convergence 5.0.0 {}", shell_word(run.out / "mllog.txt")));
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0]["converged"], true);
  EXPECT_EQ(seen[0]["samples"], 36);
  EXPECT_EQ(seen[0]["train_samples"], 36);
  EXPECT_EQ(seen[0]["global_batch"], 12);
}

/// First line of a file of /proc.
std::string first_line(const fs::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

TEST(ToldMachine, IsTheOneThatRan) {
  const TrainedRun run = train("told-machine", small_run(small_data()) + " --max-steps 1 --eval-samples 8");
  std::ifstream file(run.out / "system.json");
  const Json told = Json::parse(file);
  EXPECT_EQ(told["host"], first_line("/proc/sys/kernel/hostname"));
  EXPECT_EQ(told["kernel"], first_line("/proc/sys/kernel/osrelease"));
  cpu_set_t own;
  ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
  EXPECT_EQ(told["cores"], CPU_COUNT(&own));
  EXPECT_EQ(told["accelerators"], 0);
  const std::string memory = first_line("/proc/meminfo");  // MemTotal: N kB
  EXPECT_EQ(told["memory_bytes"], std::stoll(memory.substr(memory.find(':') + 1)) * 1024);
  std::set<std::string> sockets;
  std::string processor = "unknown";
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    if (line.starts_with("physical id")) sockets.insert(line);
    if (line.starts_with("model name")) processor = line.substr(line.find(": ") + 2);
  }
  EXPECT_EQ(told["processor"], processor);
  EXPECT_EQ(told["sockets"], std::max<std::size_t>(sockets.size(), 1));
}

}  // namespace
}  // namespace flashbert::testing
