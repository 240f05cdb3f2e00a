#include <nlohmann/json.hpp>

#include "bench/bench_attention.h"
#include "bench/bench_gemm.h"
#include "bench/bench_loader.h"
#include "bench/bench_step.h"
#include "commands/command_line.h"
#include "commands/options.h"

namespace flashbert {
namespace {

struct BenchArguments {
  BenchOptions common;
  GemmBenchOptions gemm;
  AttentionBenchOptions attention;
  StepBenchOptions step;
  LoaderBenchOptions loader;
  std::string precision = "bf16";
  bool json = false;
};

void print_rows(const std::string& bench, const BenchMachine& machine, const std::vector<BenchRow>& rows, bool json) {
  if (json) {
    nlohmann::ordered_json document = {
        {"bench", bench}, {"precision", machine.precision}, {"instruction_set", machine.instruction_set}, {"threads", machine.threads}};
    for (const BenchRow& row : rows) {
      // One row is the document itself, so that figures compare key by key with other programs'.
      nlohmann::ordered_json& target = rows.size() == 1 ? document : document[row.name];
      for (const auto& [name, value] : row.values) target[name] = value;
    }
    fmt::print("{}\n", document.dump());
    return;
  }
  for (const BenchRow& row : rows) {
    fmt::print("{}\n", row.name);
    for (const auto& [name, value] : row.values) fmt::print("  {:<32} {:.4g}\n", name, value);
  }
}

using Run = std::function<std::vector<BenchRow>(const BenchArguments&)>;
CLI::App* add_bench(CLI::App& bench, const std::shared_ptr<BenchArguments>& arguments, Action& action, const std::string& name,
                    const std::string& help, const Run& run) {
  CLI::App* const command = bench.add_subcommand(name, help);
  command->footer(fmt::format("Example: flashbert bench {} --json", name == "loader" ? "loader --data build/demo/data/train" : name));
  command->add_option("--precision", arguments->precision, "bf16 or f32")->default_str("bf16");
  command->add_option_function<std::string>(
      "--threads",
      [arguments](const std::string& text) { arguments->common.threads = static_cast<int>(parse_integer("--threads", text, 0, 1024)); },
      "0 = all cores");
  command->add_option_function<std::string>(
      "--seconds", [arguments](const std::string& text) { arguments->common.seconds = parse_real("--seconds", text, 0.0, 3600.0); },
      "time for each row");
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, &action, name, run] {
    action = [arguments, name, run] {
      check<ConfigError>(arguments->precision == "bf16" || arguments->precision == "f32", "--precision is '{}'; choose bf16 or f32",
                         arguments->precision);
      arguments->common.precision = arguments->precision == "bf16" ? Precision::kBf16 : Precision::kF32;
      const BenchMachine machine = bench_machine(arguments->common);
      print_rows(name, machine, run(*arguments), arguments->json);
      return ExitCode::kGood;
    };
  });
  return command;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  const auto a = std::make_shared<BenchArguments>();
  a->step.model = {.layers = 4, .hidden = 256, .heads = 4, .intermediate = 1024, .vocab = 30522, .max_positions = 512};
  CLI::App* const bench = app.add_subcommand("bench", "Measure this machine and the kernels on it");
  bench->require_subcommand(1);
  CLI::App* const gemm = add_bench(*bench, a, action, "gemm", "Linear layers against the measured peak",
                                   [](const BenchArguments& b) { return bench_gemm(b.common, b.gemm); });
  add_count(*gemm, "--rows", a->gemm.rows, 1, "tokens");
  add_count(*gemm, "--in", a->gemm.in, 1, "input features");
  add_count(*gemm, "--out", a->gemm.out, 1, "output features");
  CLI::App* const attention = add_bench(*bench, a, action, "attention", "Attention against the measured peak",
                                        [](const BenchArguments& b) { return bench_attention(b.common, b.attention); });
  add_count(*attention, "--heads", a->attention.heads, 1, "heads");
  add_count(*attention, "--head-dim", a->attention.head_dim, 1, "head size");
  add_count(*attention, "--seq-len", a->attention.seq_len, 1, "tokens of every sequence");
  add_count(*attention, "--batch", a->attention.batch, 1, "sequences");
  attention->add_option_function<std::string>(
      "--dropout", [a](const std::string& text) { a->attention.dropout = static_cast<float>(parse_real("--dropout", text, 0.0, 0.99)); },
      "rate");
  CLI::App* const step =
      add_bench(*bench, a, action, "step", "Training steps on random samples of Wikipedia's lengths", [](const BenchArguments& b) {
        StepBenchOptions shape = b.step;
        shape.model.max_positions = std::max(shape.model.max_positions, shape.seq_len);
        return bench_step(b.common, shape);
      });
  add_count(*step, "--layers", a->step.model.layers, 1, "encoder layers");
  add_count(*step, "--hidden", a->step.model.hidden, 1, "hidden size");
  add_count(*step, "--heads", a->step.model.heads, 1, "attention heads");
  add_count(*step, "--intermediate", a->step.model.intermediate, 1, "inner size");
  add_count(*step, "--vocab", a->step.model.vocab, 1, "vocabulary");
  add_count(*step, "--seq-len", a->step.seq_len, 1, "longest sequence");
  add_count(*step, "--batch", a->step.batch, 1, "sequences an update");
  add_count(*step, "--micro-batch", a->step.micro_batch, 1, "sequences at once; default: the batch");
  CLI::App* const loader = add_bench(*bench, a, action, "loader", "Reading and packing batches from shards",
                                     [](const BenchArguments& b) { return bench_loader(b.common, b.loader); });
  loader->add_option("--data", a->loader.data, "shard or folder of shards")->required();
  add_count(*loader, "--batch", a->loader.batch, 1, "sequences a batch");
  add_count(*loader, "--max-positions", a->loader.max_positions, 1, "longest sequence");
}

}  // namespace flashbert
