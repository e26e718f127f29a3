// SPDX-License-Identifier: Apache-2.0
// `litespark plan`: the memory that a run will take, before it starts.
#include <iostream>

#include "commands.h"
#include "plan/memory_table.h"
#include "run_setup.h"
#include "spec/run_program.h"

namespace litespark::cli {
namespace {

class PlanCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "plan",
            .purpose = "Prints the memory that a run will take, by owner and phase; allocates nothing.",
            .positionals = {{.name = "RUN.toml", .help = "The run file, as for train."}},
            .example =
                "litespark plan configs/llama-3.2-3b.toml --train.micro_batch=0 --train.accumulation=16 "
                "--device-memory=64GiB"};
  }

  void visit(Fields& fields) override {
    fields.add(
        {.path = "device-memory",
         .value = &device_memory_,
         .help = "What the device that will train has free, such as \"141GB\": the same choices as train makes."});
    fields.add({.path = "json", .value = &json_, .help = "Print one JSON object instead of tables."});
    fields.add({.path = "gpus",
                .value = &gpus_,
                .help = "Short for --cluster.gpus=N.",
                .unit = "devices",
                .range = between(1, 1 << 20)});
  }

  void visit_file(Fields& fields) override { defaults_.visit(fields); }

  ExitCode run(const CommandLine& line) override {
    const RunConfig asked = load_run(with_gpus(line, gpus_));
    const PlannedSizes sizes(asked);
    const ModelConfig model = model_of(asked);
    // What is free here says nothing about the machine that will train.
    std::optional<int64_t> device_memory;
    if (!device_memory_.empty()) device_memory = parse_size("--device-memory", device_memory_);
    // A run that does not fit is shown before it is refused, unless there is no micro-batch to show.
    SettledRun settled{.config = asked, .note = {}};
    std::optional<ConfigError> refusal;
    try {
      settled = fit_into_memory(asked, model, sizes.get(), device_memory);
    } catch (const ConfigError& error) {
      if (asked.train.micro_batch == 0) throw;
      refusal = error;
    }
    const RunConfig& config = settled.config;
    const Program program = make_llama_program(model, training_options(config), sizes.get());
    const MemoryTable table = make_memory_table(program);
    if (json_) {
      std::cout << "{\"model\": {\"parameters\": " << program.params.num_parameters
                << "}, \"memory\": " << memory_table_json(table) << "}\n";
    } else {
      std::cout << settled.note << run_headline(config, program) << "\n" << format_memory_table(table) << std::flush;
    }
    if (refusal) throw *refusal;
    return ExitCode::kDone;
  }

 private:
  std::string device_memory_;
  bool json_ = false;
  std::optional<int64_t> gpus_;
  RunConfig defaults_;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() {
  return std::make_unique<PlanCommand>();
}

}  // namespace litespark::cli
