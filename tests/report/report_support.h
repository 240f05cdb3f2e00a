#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "report/mlperf_run.h"

namespace flashbert::testing {

/// A fresh folder that is removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "flashbert-report-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> read_lines(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

inline void write_text(const std::filesystem::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

/// The records of a log; throws where a line is not the mark and one strict JSON object.
inline std::vector<nlohmann::json> read_records(const std::filesystem::path& path) {
  constexpr std::string_view kMark = ":::MLLOG ";
  std::vector<nlohmann::json> records;
  for (const std::string& line : read_lines(path)) {
    if (!line.starts_with(kMark)) throw std::runtime_error("no record: " + line);
    records.push_back(nlohmann::json::parse(line.substr(kMark.size())));
  }
  return records;
}

/// Places of the records with this key.
inline std::vector<std::size_t> places_of(const std::vector<nlohmann::json>& records, std::string_view key) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].at("key") == key) places.push_back(i);
  }
  return places;
}

/// The 398 variables of the reference's BERT-large, as the rules of 1.1 to 2.1 list them.
inline std::vector<std::string> bert_large_names() {
  std::vector<std::string> names;
  const auto add = [&](const std::string& prefix, std::initializer_list<const char*> endings) {
    for (const char* const ending : endings) names.push_back(prefix + ending);
  };
  add("bert/embeddings/", {"word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm/gamma", "LayerNorm/beta"});
  for (int layer = 0; layer < 24; ++layer) {
    const std::string prefix = "bert/encoder/layer_" + std::to_string(layer) + "/";
    for (const char* const dense : {"attention/self/query/", "attention/self/key/", "attention/self/value/", "attention/output/dense/",
                                    "intermediate/dense/", "output/dense/"})
      add(prefix + dense, {"kernel", "bias"});
    for (const char* const norm : {"attention/output/LayerNorm/", "output/LayerNorm/"}) add(prefix + norm, {"gamma", "beta"});
  }
  add("bert/pooler/dense/", {"kernel", "bias"});
  add("cls/predictions/",
      {"output_bias", "transform/dense/kernel", "transform/dense/bias", "transform/LayerNorm/gamma", "transform/LayerNorm/beta"});
  add("cls/seq_relationship/", {"output_weights", "output_bias"});
  return names;
}

/// The hyperparameters of the published runs at global batch 448.
inline RunDescription bert_large_run(std::string division) {
  return {.org = "an organisation",
          .division = std::move(division),
          .status = "onprem",
          .platform = "1x8 accelerators",
          .seed = 17,
          .global_batch = 448,
          .accumulation = 1,
          .device_batch = 56,
          .max_sequence_length = 512,
          .max_predictions = 76,
          .eval_samples = 10'000,
          .learning_rate = 4.25e-4,
          .lr_power = 1.0,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .epsilon = 1e-6,
          .weight_decay = 0.01,
          .lr_total_steps = 6700,
          .warmup_steps = 0,
          .start_warmup_step = 0,
          .clip_order = "after-reduce",
          .loss_normalisation = "global",
          .weight_names = bert_large_names()};
}

/// Writes the log of a whole run with two evaluations, the second one at 0.7207 after 300,160 samples.
inline void write_run(const std::filesystem::path& path, const RunDescription& description,
                      MlperfRun::Outcome outcome = MlperfRun::Outcome::kSuccess) {
  MlLog log(path);
  MlperfRun run(log);
  run.begin_initialisation();
  run.describe(description);
  run.start_clock();
  run.begin_evaluation(150'080);
  run.evaluation(150'080, 0.3782);
  run.begin_evaluation(300'160);
  run.evaluation(300'160, 0.7207);
  run.finish(300'160, outcome);
}

}  // namespace flashbert::testing
