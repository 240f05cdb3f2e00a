// Saves read by a reader of the tests' own, and files that other programs write.
#include "train/checkpoint_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/digest.h"
#include "core/error.h"
#include "model/model_fixture.h"
#include "support/plain_safetensors.h"
#include "support/shared_data.h"
#include "train/checkpoint_convert.h"
#include "train/checkpoint_inspect.h"
#include "train/checkpoint_load.h"
#include "train/checkpoint_save.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

/// Hugging Face's names and shapes of a BertForPreTraining with kShape's sizes: 3 layers, hidden 40, intermediate 56, vocabulary 83, 37
/// positions, 2 segments.
std::map<std::string, std::vector<std::int64_t>> hugging_face_shapes() {
  std::map<std::string, std::vector<std::int64_t>> shapes = {
      {"bert.embeddings.word_embeddings.weight", {83, 40}},
      {"bert.embeddings.position_embeddings.weight", {37, 40}},
      {"bert.embeddings.token_type_embeddings.weight", {2, 40}},
      {"bert.embeddings.LayerNorm.weight", {40}},
      {"bert.embeddings.LayerNorm.bias", {40}},
      {"bert.pooler.dense.weight", {40, 40}},
      {"bert.pooler.dense.bias", {40}},
      {"cls.predictions.bias", {83}},
      {"cls.predictions.transform.dense.weight", {40, 40}},
      {"cls.predictions.transform.dense.bias", {40}},
      {"cls.predictions.transform.LayerNorm.weight", {40}},
      {"cls.predictions.transform.LayerNorm.bias", {40}},
      {"cls.seq_relationship.weight", {2, 40}},
      {"cls.seq_relationship.bias", {2}},
  };
  for (const std::string layer : {"bert.encoder.layer.0.", "bert.encoder.layer.1.", "bert.encoder.layer.2."}) {
    for (const std::string part : {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"}) {
      shapes[layer + part + ".weight"] = {40, 40};
      shapes[layer + part + ".bias"] = {40};
    }
    shapes[layer + "intermediate.dense.weight"] = {56, 40};
    shapes[layer + "intermediate.dense.bias"] = {56};
    shapes[layer + "output.dense.weight"] = {40, 56};
    shapes[layer + "output.dense.bias"] = {40};
    for (const std::string norm : {"attention.output.LayerNorm.", "output.LayerNorm."}) {
      shapes[layer + norm + "weight"] = {40};
      shapes[layer + norm + "bias"] = {40};
    }
  }
  return shapes;
}

/// A file of this model with values that are exact in bf16.
PlainSafetensors plain_model() {
  PlainSafetensors file;
  RandomValues random(71);
  for (const auto& [name, shape] : hugging_face_shapes()) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    file.tensors[name] = {.dtype = "F32", .shape = shape, .values = random.values(elements, Dtype::kBf16)};
  }
  return file;
}

NamedValues values_of(const PlainSafetensors& file) {
  NamedValues values;
  for (const auto& [name, tensor] : file.tensors) values[name] = tensor.values;
  return values;
}

class CheckpointFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] Parameters& parameters() { return model_.engine().model().parameters(); }
  void expect_weights(const NamedValues& want) {
    for (std::size_t i = 0; i < model_.table().parameters().size(); ++i) {
      const std::string& name = model_.table().parameters()[i].name;
      EXPECT_EQ(model_.master(i), want.at(name)) << name;
    }
  }
  void save(std::int64_t step, std::int64_t keep) {
    save_checkpoint({.out = folder_, .state = {.step = step, .samples = 1000 + step, .seed = 77}, .model = config_of(kShape), .keep = keep},
                    parameters(), model_.ops());
  }
  /// Loads the file into a model that holds other weights and expects these.
  void expect_loads(const PlainSafetensors& file, const NamedValues& want) {
    write_plain(folder_ / "foreign.safetensors", file);
    model_.set(random_weights(model_.table(), 99));
    load_checkpoint(folder_ / "foreign.safetensors", parameters(), model_.ops());
    expect_weights(want);
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("flashbert-files-{}", ::getpid());
  ModelFixture model_{{.global_batch = 1, .micro_batch = 1}};
};

TEST_F(CheckpointFiles, SavesHoldEveryWeightUnderHuggingFacesNamesAndShapes) {
  const NamedValues weights = random_weights(model_.table(), 72);
  model_.set(weights);
  save(12, 2);
  const fs::path saved = folder_ / "checkpoints/step-00000012";
  const PlainSafetensors file = read_plain(saved / "model.safetensors");
  const auto shapes = hugging_face_shapes();
  ASSERT_EQ(file.tensors.size(), shapes.size());
  for (const auto& [name, shape] : shapes) {
    ASSERT_TRUE(file.tensors.contains(name)) << name;
    EXPECT_EQ(file.tensors.at(name).dtype, "F32") << name;
    EXPECT_EQ(file.tensors.at(name).shape, shape) << name;
    EXPECT_EQ(file.tensors.at(name).values, weights.at(name)) << name;
  }
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"step", "12"}}));

  std::ifstream state_file(saved / "state.json");
  EXPECT_EQ(nlohmann::json::parse(state_file), (nlohmann::json{{"step", 12}, {"samples", 1012}, {"seed", 77}}));
  std::ifstream config_file(saved / "config.json");
  EXPECT_EQ(nlohmann::json::parse(config_file), (nlohmann::json{{"architectures", {"BertForPreTraining"}},
                                                                {"model_type", "bert"},
                                                                {"vocab_size", 83},
                                                                {"hidden_size", 40},
                                                                {"num_hidden_layers", 3},
                                                                {"num_attention_heads", 5},
                                                                {"intermediate_size", 56},
                                                                {"max_position_embeddings", 37},
                                                                {"type_vocab_size", 2},
                                                                {"hidden_act", "gelu_new"},
                                                                {"layer_norm_eps", 1e-12},
                                                                {"hidden_dropout_prob", 0.15},
                                                                {"attention_probs_dropout_prob", 0.3},
                                                                {"initializer_range", 0.02},
                                                                {"pad_token_id", 0},
                                                                {"tie_word_embeddings", true}}));
  std::ifstream latest(folder_ / "checkpoints/latest");
  std::string newest;
  std::getline(latest, newest);
  EXPECT_EQ(newest, "step-00000012");
}

TEST_F(CheckpointFiles, OnlyTheNewestSavesAreKept) {
  const auto saves = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) names.insert(entry.path().filename().string());
    return names;
  };
  // Names sort by step also where the number of digits changes.
  for (const std::int64_t step : {8, 9, 10, 11}) save(step, 3);
  EXPECT_EQ(saves(), (std::set<std::string>{"latest", "step-00000009", "step-00000010", "step-00000011"}));
  save(12, 1);
  EXPECT_EQ(saves(), (std::set<std::string>{"latest", "step-00000012"}));
  save(99'999'999, 1);
  save(100'000'000, 1);
  EXPECT_EQ(saves(), (std::set<std::string>{"latest", "step-100000000"}));
}

TEST_F(CheckpointFiles, ConfigurationsAreReadKeyByKey) {
  std::ofstream(folder_ / "config.json") << R"({"vocab_size": 91, "hidden_size": 48, "num_hidden_layers": 7, "num_attention_heads": 3,
    "intermediate_size": 72, "max_position_embeddings": 29, "type_vocab_size": 4, "hidden_dropout_prob": 0.25,
    "attention_probs_dropout_prob": 0.05})";
  const BertConfig config = read_hugging_face_config(folder_ / "config.json", nullptr);
  EXPECT_EQ(config.vocab, 91);
  EXPECT_EQ(config.hidden, 48);
  EXPECT_EQ(config.layers, 7);
  EXPECT_EQ(config.heads, 3);
  EXPECT_EQ(config.intermediate, 72);
  EXPECT_EQ(config.max_positions, 29);
  EXPECT_EQ(config.type_vocab, 4);
  EXPECT_EQ(config.hidden_dropout, 0.25F);
  EXPECT_EQ(config.attention_dropout, 0.05F);
}

TEST_F(CheckpointFiles, PlainF32F64AndBf16FilesAreLoadedWhole) {
  for (const char* const dtype : {"F32", "F64", "BF16"}) {
    PlainSafetensors file = plain_model();
    for (auto& [name, tensor] : file.tensors) tensor.dtype = dtype;
    SCOPED_TRACE(dtype);
    expect_loads(file, values_of(file));
  }
}

TEST_F(CheckpointFiles, OldLayerNormNamesAreRead) {
  const PlainSafetensors now = plain_model();
  PlainSafetensors old;
  for (const auto& [name, tensor] : now.tensors) {
    std::string before = name;
    if (const auto at = name.find("LayerNorm.weight"); at != std::string::npos) before = name.substr(0, at) + "LayerNorm.gamma";
    if (const auto at = name.find("LayerNorm.bias"); at != std::string::npos) before = name.substr(0, at) + "LayerNorm.beta";
    old.tensors[before] = tensor;
  }
  expect_loads(old, values_of(now));
}

TEST_F(CheckpointFiles, AStoredDecoderAndPositionIdsAreNoObstacle) {
  PlainSafetensors file = plain_model();
  const NamedValues want = values_of(file);
  file.tensors["cls.predictions.decoder.weight"] = file.tensors["bert.embeddings.word_embeddings.weight"];
  file.tensors["cls.predictions.decoder.bias"] = file.tensors["cls.predictions.bias"];
  file.tensors["bert.embeddings.position_ids"] = {.dtype = "I64", .shape = {1, 37}, .values = Values(37, 3.0)};
  expect_loads(file, want);
}

TEST_F(CheckpointFiles, AVocabularyPaddedToEightOrSixtyFourIsCutToTheModels) {
  const NamedValues want = values_of(plain_model());
  const auto padded_to = [](std::int64_t rows) {
    PlainSafetensors file = plain_model();
    for (const auto& [name, row] : {std::pair{"bert.embeddings.word_embeddings.weight", 40}, {"cls.predictions.bias", 1}}) {
      PlainTensor& tensor = file.tensors[name];
      tensor.shape[0] = rows;
      tensor.values.resize(static_cast<std::size_t>(rows * row), 8.0);
    }
    return file;
  };
  expect_loads(padded_to(88), want);
  expect_loads(padded_to(128), want);
  EXPECT_THROW(expect_loads(padded_to(84), want), InputError);
  EXPECT_THROW(expect_loads(padded_to(96), want), InputError);
}

TEST_F(CheckpointFiles, ConvertedVocabulariesAreCutOrPaddedWithZeros) {
  const PlainSafetensors file = plain_model();
  write_plain(folder_ / "in.safetensors", file);
  for (const std::int64_t vocab : {60, 90}) {
    static_cast<void>(convert_checkpoint(folder_ / "in.safetensors", folder_ / "out.safetensors",
                                         {.format = {}, .vocab_size = vocab, .model = {}, .overwrite = true}));
    const PlainSafetensors out = read_plain(folder_ / "out.safetensors");
    ASSERT_EQ(out.tensors.size(), file.tensors.size());
    for (const auto& [name, tensor] : file.tensors) {
      PlainTensor want = tensor;
      if (name == "bert.embeddings.word_embeddings.weight" || name == "cls.predictions.bias") {
        const std::int64_t row = name == "cls.predictions.bias" ? 1 : 40;
        want.shape[0] = vocab;
        want.values.resize(static_cast<std::size_t>(vocab * row), 0.0);
      }
      EXPECT_EQ(out.tensors.at(name).shape, want.shape) << name;
      EXPECT_EQ(out.tensors.at(name).values, want.values) << name;
    }
  }
}

TEST_F(CheckpointFiles, ConvertedFoldersTellTheShapeThatTheSourceHas) {
  write_plain(folder_ / "in.safetensors", plain_model());
  const auto config_after = [&](const fs::path& model) {
    static_cast<void>(convert_checkpoint(folder_ / "in.safetensors", folder_ / "out/",
                                         {.format = "huggingface", .vocab_size = 0, .model = model, .overwrite = true}));
    std::ifstream file(folder_ / "out/config.json");
    return nlohmann::json::parse(file);
  };
  // Heads cannot be told from tensors: hidden / 64, at least 1, and the note says so.
  const auto guessed = config_after({});
  const nlohmann::json sizes = {{"num_hidden_layers", 3}, {"hidden_size", 40},       {"num_attention_heads", 1},
                                {"vocab_size", 83},       {"intermediate_size", 56}, {"max_position_embeddings", 37}};
  for (const auto& [key, value] : sizes.items()) EXPECT_EQ(guessed[key], value) << key;
  std::ofstream(folder_ / "model.json") << R"({"hidden_size": 40, "num_hidden_layers": 3, "num_attention_heads": 5, "vocab_size": 83,
    "intermediate_size": 56, "max_position_embeddings": 37, "hidden_dropout_prob": 0.2})";
  const auto told = config_after(folder_ / "model.json");
  EXPECT_EQ(told["num_attention_heads"], 5);
  EXPECT_EQ(told["hidden_dropout_prob"], 0.2);
  // A vocabulary that was cut is the configuration's too, whatever the source's tells.
  static_cast<void>(convert_checkpoint(folder_ / "in.safetensors", folder_ / "cut/",
                                       {.format = "huggingface", .vocab_size = 60, .model = folder_ / "model.json", .overwrite = true}));
  std::ifstream cut(folder_ / "cut/config.json");
  EXPECT_EQ(nlohmann::json::parse(cut)["vocab_size"], 60);
}

TEST_F(CheckpointFiles, SummariesTellShapesTypesAndNorms) {
  PlainSafetensors file = {{{"a", {.dtype = "F32", .shape = {2, 2}, .values = {1, -2, 4, 2}}},
                            {"b", {.dtype = "BF16", .shape = {3}, .values = {2, 3, 6}}},
                            {"c", {.dtype = "I64", .shape = {1}, .values = {5}}}},
                           {{"step", "31"}}};
  write_plain(folder_ / "small.safetensors", file);
  const CheckpointSummary summary = inspect_checkpoint(folder_ / "small.safetensors");
  EXPECT_EQ(summary.format, "safetensors");
  EXPECT_EQ(summary.step, 31);
  ASSERT_EQ(summary.tensors.size(), 3U);
  EXPECT_EQ(summary.tensors[0].name, "a");
  EXPECT_EQ(summary.tensors[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(summary.tensors[0].norm, 5.0);
  EXPECT_EQ(summary.tensors[1].dtype, "BF16");
  EXPECT_EQ(summary.tensors[1].norm, 7.0);
  EXPECT_EQ(summary.tensors[2].norm, std::nullopt);
}

// Written by the safetensors package; hashes by another program (expected.json beside them).
TEST(CheckpointsOfOthers, AreReadTensorByTensorOrRefused) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path folder = shared / "data/checkpoints";
  std::ifstream expected_file(folder / "expected.json");
  const auto expected = nlohmann::json::parse(expected_file);
  const BertConfig config = read_hugging_face_config(shared / "golden/tiny/config.json", nullptr);
  const ReferenceShape shape = {.layers = static_cast<std::size_t>(config.layers),
                                .hidden = static_cast<std::size_t>(config.hidden),
                                .heads = static_cast<std::size_t>(config.heads),
                                .intermediate = static_cast<std::size_t>(config.intermediate),
                                .vocab = static_cast<std::size_t>(config.vocab),
                                .positions = static_cast<std::size_t>(config.max_positions),
                                .segments = static_cast<std::size_t>(config.type_vocab)};
  ModelFixture model({.shape = shape, .global_batch = 1, .micro_batch = 1});
  int read = 0;
  int refused = 0;
  for (const auto& [name, verdict] : expected["files"].items()) {
    if (!name.ends_with(".safetensors")) continue;
    SCOPED_TRACE(name);
    const auto load = [&] { load_checkpoint(folder / name, model.engine().model().parameters(), model.ops()); };
    // A file without heads is whole in itself, but no start for pre-training.
    if (verdict["verdict"] != "accept" || name.find("encoder_only") != std::string::npos) {
      EXPECT_THROW(load(), InputError);
      ++refused;
      continue;
    }
    load();
    ++read;
    const auto& table = expected["tables"][verdict["table"].get<std::string>()];
    for (std::size_t i = 0; i < model.table().parameters().size(); ++i) {
      const std::string& parameter = model.table().parameters()[i].name;
      const Tensor master = model.engine().model().parameters().parameter_master(i);
      Digest digest(Digest::Algorithm::kSha256);
      digest.update(master.data<float>(), static_cast<std::size_t>(master.elements()) * sizeof(float));
      EXPECT_EQ(digest.hex(), table[parameter]["sha256"]) << parameter;
    }
  }
  EXPECT_EQ(read, 4);
  EXPECT_EQ(refused, 7);
}

}  // namespace
}  // namespace flashbert::testing
