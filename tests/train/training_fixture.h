#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "support/shared_data.h"
#include "train/backend.h"
#include "train/checkpoint_load.h"
#include "train/engine.h"

namespace flashbert::testing {

/// A model with data and memory, ready to step: what the trainer builds, without files and logs.
class TrainingFixture {
 public:
  struct Options {
    BertConfig model;
    OptimizerSettings optimizer;
    std::filesystem::path data;
    std::int64_t global_batch = 16, micro_batch = 16;
    Precision precision = Precision::kF32;
    int threads = 0;
    std::uint64_t seed = 1;
    ClipOrder clip = ClipOrder::kAfterReduce;
    LossNormalisation normalisation = LossNormalisation::kGlobal;
    std::int64_t max_predictions = 80;
  };
  explicit TrainingFixture(const Options& o) : data(open_data_set(o.data, o.model.max_positions)) {
    TrainSettings settings;
    settings.precision = o.precision;
    settings.threads = o.threads;
    backend = make_backend(settings, *ranks);
    const std::int64_t seq_len = data.seq_len > 0 ? data.seq_len : o.model.max_positions;
    const RowCapacity rows = {.sequences = o.micro_batch,
                              .tokens = o.micro_batch * seq_len,
                              .masked = o.micro_batch * std::max(data.max_predictions, o.max_predictions),
                              .seq_len = seq_len};
    engine = std::make_unique<Engine>(EngineOptions{.model = o.model,
                                                    .optimizer = o.optimizer,
                                                    .compute = backend.compute,
                                                    .capacity = rows,
                                                    .use = Parameters::Use::kTraining,
                                                    .global_batch = o.global_batch,
                                                    .accumulation = o.global_batch / o.micro_batch,
                                                    .clip = o.clip,
                                                    .loss_normalisation = o.normalisation,
                                                    .seed = o.seed},
                                      *backend.ops, Peers{.ranks = *ranks, .collectives = *collectives});
    loader = std::make_unique<Loader>(
        data, LoaderOptions{.seed = o.seed,
                            .global_batch = o.global_batch,
                            .micro_batch = o.micro_batch,
                            .rank = 0,
                            .ranks = 1,
                            .first_step = 0,
                            .capacity = {.sequences = rows.sequences, .tokens = rows.tokens, .masked = rows.masked},
                            .limits = {.vocab = o.model.vocab, .max_positions = o.model.max_positions, .type_vocab = o.model.type_vocab}});
    loader->start();
  }
  StepResult step() { return engine->train_step(loader->next()); }
  [[nodiscard]] Parameters& parameters() { return engine->model().parameters(); }
  void load(const std::filesystem::path& checkpoint) { load_checkpoint(checkpoint, parameters(), *backend.ops); }
  void initialise(std::uint64_t seed = 1) { parameters().initialise(*backend.ops, seed); }

  DataSet data;
  std::unique_ptr<Ranks> ranks = make_self_ranks();
  std::unique_ptr<Collectives> collectives = make_self_collectives();
  Backend backend;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Loader> loader;
};

/// A tensor of a safetensors file as doubles.
inline std::vector<double> read_doubles(const SafetensorsFile& file, const std::string& name) {
  const ConstTensor tensor = file.tensor(name);
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  const auto* const bytes = static_cast<const char*>(tensor.raw());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype() == Dtype::kF64) {
      std::memcpy(&values[i], bytes + i * sizeof(double), sizeof(double));
    } else {
      float value = 0.0F;
      std::memcpy(&value, bytes + i * sizeof(float), sizeof(float));
      values[i] = static_cast<double>(value);
    }
  }
  return values;
}

inline double l2(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

/// Euclidean norm of the difference of an f32 tensor and wanted values.
inline double l2_difference(const ConstTensor& got, const std::vector<double>& want) {
  double sum = 0.0;
  const float* const values = got.data<float>();
  for (std::size_t i = 0; i < want.size(); ++i)
    sum += (static_cast<double>(values[i]) - want[i]) * (static_cast<double>(values[i]) - want[i]);
  return std::sqrt(sum);
}

/// The folder of a training golden: `small` stands in the repository, the others in the shared folder (nothing where that is absent).
inline std::optional<std::filesystem::path> golden_folder(const std::string& name) {
  if (name == "small") return repository_goldens() / "small";
  const auto shared = shared_data();
  if (!shared) return std::nullopt;
  return *shared / "golden" / name;
}
#define FLASHBERT_GOLDEN_OR_SKIP(folder, name)                                                    \
  const auto folder##_found = ::flashbert::testing::golden_folder(name);                          \
  if (!folder##_found) GTEST_SKIP() << "no golden " << name << ": FLASHBERT_SHARED is not there"; \
  const std::filesystem::path folder = *folder##_found

/// Real tokens of a golden batch.
inline double golden_tokens(const nlohmann::json& steps) {
  return steps.contains("tokens") ? steps["tokens"].get<double>() : steps["first_f64"]["tokens"].get<double>();
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace flashbert::testing
