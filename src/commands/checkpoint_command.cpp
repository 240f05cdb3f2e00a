#include <nlohmann/json.hpp>

#include "commands/command_line.h"
#include "commands/options.h"
#include "train/checkpoint_convert.h"
#include "train/checkpoint_inspect.h"

namespace flashbert {
namespace {

struct CheckpointOptions {
  std::string in, out;
  ConvertOptions convert;
  bool json = false;
};

void print_summary(const CheckpointSummary& summary, bool json) {
  if (json) {
    nlohmann::ordered_json document = {
        {"format", summary.format}, {"step", nullptr}, {"tensors", nlohmann::ordered_json::array()}, {"optimizer", summary.optimizer}};
    if (summary.step) document["step"] = *summary.step;
    for (const auto& tensor : summary.tensors) {
      document["tensors"].push_back({{"name", tensor.name},
                                     {"shape", tensor.shape},
                                     {"dtype", tensor.dtype},
                                     {"norm", tensor.norm ? nlohmann::ordered_json(*tensor.norm) : nlohmann::ordered_json()}});
    }
    fmt::print("{}\n", document.dump());
    return;
  }
  fmt::print("format {}{}\n", summary.format, summary.step ? fmt::format(", step {}", *summary.step) : "");
  for (const auto& tensor : summary.tensors) {
    fmt::print("{:<64} {:<6} ({}){}\n", tensor.name, tensor.dtype, fmt::join(tensor.shape, ", "),
               tensor.norm ? fmt::format("  norm {:.6g}", *tensor.norm) : "");
  }
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<CheckpointOptions>();
  CLI::App* const command = app.add_subcommand("checkpoint", "Look into checkpoints and convert them");
  command->require_subcommand(1);
  CLI::App* const inspect = command->add_subcommand("inspect", "List the tensors of a checkpoint with their norms");
  inspect->footer("Example: flashbert checkpoint inspect results/first/checkpoints/step-00000600");
  inspect->add_option("file", options->in, "safetensors file or folder")->required();
  inspect->add_flag("--json", options->json, "one JSON document on standard output");
  inspect->callback([options, &action] {
    action = [options] {
      print_summary(inspect_checkpoint(options->in), options->json);
      return ExitCode::kGood;
    };
  });
  CLI::App* const convert = command->add_subcommand("convert", "Write a checkpoint as safetensors or as a Hugging Face folder");
  convert->footer("Example: flashbert checkpoint convert results/first/checkpoints/step-00000600 bert.safetensors");
  convert->add_option("in", options->in, "checkpoint")->required();
  convert->add_option("out", options->out, "file ending in .safetensors, or a folder")->required();
  convert->add_option("--format", options->convert.format, "safetensors or huggingface");
  add_count(*convert, "--vocab-size", options->convert.vocab_size, 0, "cut or pad the vocabulary; 0 = as it is");
  convert->add_flag("--overwrite", options->convert.overwrite, "replace an existing file");
  convert->add_option("--model", options->convert.model, "config.json for what tensors cannot tell");
  convert->callback([options, &action] {
    action = [options] {
      const std::string note = convert_checkpoint(options->in, options->out, options->convert);
      if (!note.empty()) fmt::print("{}\n", note);
      return ExitCode::kGood;
    };
  });
}

}  // namespace flashbert
