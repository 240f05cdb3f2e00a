#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "commands/command_line.h"
#include "commands/options.h"
#include "data/fingerprint.h"
#include "data/shard_description.h"
#include "data/shard_reader.h"
#include "data/synth.h"

namespace flashbert {
namespace {

struct InspectOptions {
  std::filesystem::path file, vocab;
  std::string rows;
  bool json = false;
};

std::vector<std::string> read_vocabulary(const std::filesystem::path& path) {
  std::ifstream file(path);
  check<InputError>(file.good(), "cannot open the vocabulary {}", path.string());
  std::vector<std::string> words;
  for (std::string line; std::getline(file, line);) words.push_back(line);
  return words;
}

/// Rows [begin, end) to print.
struct PrintedRows {
  std::int64_t begin = 0, end = 0;
};
PrintedRows parse_rows(const std::string& text, std::int64_t samples) {
  const auto colon = text.find(':');
  check<ConfigError>(colon != std::string::npos, "--rows is '{}'; write first:end, for example 0:3", text);
  const std::int64_t begin = parse_integer("--rows", text.substr(0, colon), 0, samples);
  return {begin, parse_integer("--rows", text.substr(colon + 1), begin, samples)};
}

void print_sample(const SampleView& sample, std::int64_t row, const std::vector<std::string>& words) {
  const auto word = [&](std::int32_t id) {
    return static_cast<std::size_t>(id) < words.size() ? words[static_cast<std::size_t>(id)] : std::to_string(id);
  };
  std::string text;
  for (const std::int32_t id : sample.token_ids) text += (text.empty() ? "" : " ") + word(id);
  fmt::print("row {}: {} tokens, next-sentence label {}\n  {}\n", row, sample.token_ids.size(), sample.next_sentence_label, text);
  for (std::size_t i = 0; i < sample.masked_positions.size(); ++i) {
    fmt::print("  masked position {} was {}\n", sample.masked_positions[i], word(sample.masked_labels[i]));
  }
}

/// What is inspected need not fit any model.
constexpr SampleLimits kAnyModel = {.vocab = 0, .max_positions = 0, .type_vocab = 0};

nlohmann::ordered_json sample_json(const SampleView& sample, std::int64_t row) {
  return {{"row", row},
          {"token_ids", std::vector<int>(sample.token_ids.begin(), sample.token_ids.end())},
          {"segment_ids", std::vector<int>(sample.segment_ids.begin(), sample.segment_ids.end())},
          {"masked_positions", std::vector<int>(sample.masked_positions.begin(), sample.masked_positions.end())},
          {"masked_labels", std::vector<int>(sample.masked_labels.begin(), sample.masked_labels.end())},
          {"next_sentence_label", sample.next_sentence_label}};
}

ExitCode inspect(const InspectOptions& options) {
  const ShardInfo info = inspect_shard(options.file);
  const PrintedRows range = options.rows.empty() ? PrintedRows{} : parse_rows(options.rows, info.samples);
  const auto words = options.vocab.empty() ? std::vector<std::string>{} : read_vocabulary(options.vocab);
  const std::string layout = info.wide_ids ? "fixed-int32" : std::string(name_of(info.layout));
  const auto datasets = describe_datasets(options.file);
  const auto digests = fingerprints(options.file);
  const SampleStore samples = range.end > range.begin ? read_shard(info, kAnyModel) : SampleStore();
  if (options.json) {
    nlohmann::ordered_json json = {
        {"layout", layout}, {"samples", info.samples}, {"datasets", nlohmann::ordered_json::array()}, {"fingerprints", digests}};
    for (const auto& d : datasets)
      json["datasets"].push_back({{"name", d.name}, {"type", d.type}, {"shape", d.shape}, {"storage", d.storage}});
    for (std::int64_t row = range.begin; row < range.end; ++row) json["rows"].push_back(sample_json(samples[row], row));
    fmt::print("{}\n", json.dump());
    return ExitCode::kGood;
  }
  fmt::print("{}: layout {}, {} samples\n", options.file.string(), layout, info.samples);
  for (const auto& d : datasets) fmt::print("  {:<24} {:<12} ({})  {}\n", d.name, d.type, fmt::join(d.shape, ", "), d.storage);
  for (const auto& [name, digest] : digests) fmt::print("  {:<24} {}\n", name, digest);
  for (std::int64_t row = range.begin; row < range.end; ++row) print_sample(samples[row], row, words);
  return ExitCode::kGood;
}

void add_synth(CLI::App& data, Action& action) {
  const auto options = std::make_shared<SynthOptions>();
  options->samples = 60000;
  options->eval_samples = 1000;
  options->vocab = 1024;
  options->seq_len = 128;
  options->layout = "varlength";
  options->shards = 4;
  options->seed = 1;
  CLI::App* const command = data.add_subcommand("synth", "Write shards of a synthetic language with a known best accuracy");
  command->footer("Example: flashbert data synth --out build/demo/data");
  command->add_option("--out", options->out, "folder; gets train/ and eval/")->required();
  add_count(*command, "--samples", options->samples, 1, "training samples");
  add_count(*command, "--eval-samples", options->eval_samples, 1, "held-out samples");
  add_count(*command, "--vocab", options->vocab, 133, "vocabulary size");
  add_count(*command, "--seq-len", options->seq_len, 16, "longest sample");
  add_count(*command, "--shards", options->shards, 1, "training shards");
  command->add_option("--layout", options->layout, "varlength, fixed or fixed-int32")->default_str(options->layout);
  command
      ->add_option_function<std::string>(
          "--seed", [options](const std::string& text) { options->seed = parse_unsigned("--seed", text); }, "everything follows from it")
      ->default_str("1")
      ->trigger_on_parse();
  const auto overwrite = std::make_shared<bool>(false);
  command->add_flag("--overwrite", *overwrite, "replace shards that lie there");
  command->add_flag("--shuffle-labels", options->shuffle_labels, "labels of other samples: nothing can be learned (a control)");
  command->callback([options, overwrite, &action] {
    action = [options, overwrite] {
      for (const char* const part : {"train", "eval"}) {
        std::error_code ignored;
        const std::filesystem::path folder = options->out / part;
        check<ConfigError>(*overwrite || !std::filesystem::exists(folder, ignored) || std::filesystem::is_empty(folder, ignored),
                           "{} holds something already; choose another --out or add --overwrite", folder.string());
      }
      const SynthResult r = synthesize(*options);
      fmt::print("training    {} samples, {} tokens in {}\n", r.train_samples, r.train_tokens, r.train_path.string());
      fmt::print("evaluation  {} samples, {} tokens, {} masked in {}\n", r.eval_samples, r.eval_tokens, r.eval_masked,
                 r.eval_path.string());
      fmt::print("best possible masked-LM accuracy on these evaluation samples: {:.4f}\n", r.best_accuracy);
      return ExitCode::kGood;
    };
  });
}

}  // namespace

void add_data_command(CLI::App& app, Action& action) {
  CLI::App* const data = app.add_subcommand("data", "Make and look into shards");
  data->require_subcommand(1);
  add_synth(*data, action);
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* const command = data->add_subcommand("inspect", "Layout, datasets and fingerprints of one shard");
  command->footer("Example: flashbert data inspect part_00000_of_00001.hdf5 --rows 0:2 --vocab vocab.txt");
  command->add_option("file", options->file, "HDF5 shard")->required();
  command->add_option("--rows", options->rows, "samples to print, first:end");
  command->add_option("--vocab", options->vocab, "vocab.txt: print words for ids");
  command->add_flag("--json", options->json, "one JSON document on standard output");
  command->callback([options, &action] { action = [options] { return inspect(*options); }; });
}

}  // namespace flashbert
