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
            .example = "litespark plan configs/124m.toml --train.micro_batch=4 --memory.recompute=block"};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "json", .value = &json_, .help = "Print one JSON object instead of tables."});
    fields.add({.path = "gpus",
                .value = &gpus_,
                .help = "Short for --cluster.gpus=N.",
                .unit = "devices",
                .range = between(1, 1 << 20)});
  }

  void visit_file(Fields& fields) override { defaults_.visit(fields); }

  ExitCode run(const CommandLine& line) override {
    const RunConfig config = load_run(with_gpus(line, gpus_));
    const PlannedSizes sizes(config);
    const Program program = make_llama_program(model_of(config), training_options(config), sizes.get());
    const MemoryTable table = make_memory_table(program);
    if (json_) {
      std::cout << "{\"model\": {\"parameters\": " << program.params.num_parameters
                << "}, \"memory\": " << memory_table_json(table) << "}\n";
    } else {
      std::cout << run_headline(config, program) << "\n" << format_memory_table(table) << std::flush;
    }
    // Only a budget that the run file names: what is free here says nothing about the machine that will train.
    fit_into_memory(config, program.config, sizes.get(), std::nullopt);
    return ExitCode::kDone;
  }

 private:
  bool json_ = false;
  std::optional<int64_t> gpus_;
  RunConfig defaults_;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() {
  return std::make_unique<PlanCommand>();
}

}  // namespace litespark::cli
