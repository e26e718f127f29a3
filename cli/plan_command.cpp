// SPDX-License-Identifier: Apache-2.0
// `litespark plan`: what a run will take, before it starts, and how far such predictions were from measured runs.
#include <iostream>

#include "commands.h"
#include "core/text_table.h"
#include "plan/forecast_report.h"
#include "plan/memory_table.h"
#include "plan/run_advice.h"
#include "plan/stage_plan.h"
#include "plan/tape_counts.h"
#include "plan_forecast.h"
#include "plan_validation.h"
#include "run_setup.h"
#include "width_file.h"

namespace litespark::cli {
namespace {

class PlanCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "plan",
            .purpose = "Prints the memory, time, energy, carbon and money that a run will take; allocates nothing.",
            .positionals = {{.name = "RUN.toml", .help = "The run file, as for train.", .is_required = false}},
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
    request_.visit(fields);
    fields.add({.path = "widths",
                .value = &widths_,
                .help = "What `litespark anatomy width` stored, for the choice of model.intermediate_size. Default: "
                        "widths.toml in the user's cache folder, where it speaks of this hidden size."});
    fields.add({.path = "validate",
                .value = &validation_.rows,
                .help = "Instead of a plan: predict each row of a file of measured runs and print the errors."});
    fields.add({.path = "fit",
                .value = &validation_.fit,
                .help = "With --validate: nothing, one factor a type of hardware from one-node rows, or from all.",
                .choices = {"none", "scalar", "all"}});
    fields.add({.path = "fit-from",
                .value = &validation_.fit_from,
                .help = "With --validate: another file of rows to fit on."});
  }

  void visit_file(Fields& fields) override { defaults_.visit(fields); }

  ExitCode run(const CommandLine& line) override {
    if (!validation_.rows.empty()) return run_validation(line);
    if (!validation_.fit_from.empty()) {
      throw ConfigError("command line", "--fit-from needs --validate", validation_.fit_from, "--validate=ROWS.csv");
    }
    refuse_idle_options();
    if (line.positionals.empty()) {
      throw ConfigError("command line", "something to plan is missing", "no run file",
                        "RUN.toml, or --validate=ROWS.csv");
    }
    RunConfig asked = load_run(with_gpus(line, gpus_));
    plan_for_named_device(request_, asked);
    warn_of_ignored_settings(asked);
    const PlannedSizes sizes(asked);
    const ModelConfig model = model_of(asked);
    check_fp8(request_, asked, model);
    // A run that does not fit is shown before it is refused, unless there is no micro-batch to show.
    SettledRun settled{.config = asked, .note = {}};
    std::optional<ConfigError> refusal;
    try {
      settled = fit_into_memory(asked, model, sizes.get(), free_bytes());
    } catch (const ConfigError& error) {
      if (asked.train.micro_batch == 0) throw;
      refusal = error;
    }
    const RunConfig& config = settled.config;
    const StagePlan stages = plan_stages(model, planned_options(config), sizes.get());
    const RunForecast forecast = make_forecast(request_, config, model, stages.program);
    const std::optional<Program> whole = whole_replica(stages, model, sizes.get());
    print(settled, stages, count_micro_batch(whole ? *whole : stages.program), forecast,
          widths_of_run(widths_, config, model));
    write_files(request_, forecast, config);
    if (refusal) throw *refusal;
    if (!forecast.has_tapes && !forecast.fits()) {
      throw ConfigError(
          "cluster", "the run does not fit", bytes_text(static_cast<int64_t>(forecast.memory_bytes)),
          bytes_text(static_cast<int64_t>(forecast.hardware.memory_bytes())) + " of a " + forecast.hardware.name,
          "--search says what would");
    }
    return ExitCode::kDone;
  }

 private:
  /// An option that would change nothing was meant to.
  void refuse_idle_options() const {
    const auto need = [](bool is_met, const char* option, const char* found, const char* expected) {
      if (!is_met) throw ConfigError("command line", std::string(option) + " has no effect", found, expected);
    };
    need(!request_.csv || (!json_ && !request_.search), "--json or --search", "beside --csv", "one of them");
    need(request_.spread == 0 || !request_.trace.empty(), "--spread", "without --trace", "--trace=FILE");
    need(request_.goal == SearchGoal::kFastest || request_.search, "--goal", "without --search", "--search");
  }

  /// What is free here says nothing about the machine that will train.
  std::optional<int64_t> free_bytes() const {
    if (device_memory_.empty()) return std::nullopt;
    return parse_size("--device-memory", device_memory_);
  }

  /// What a micro-batch takes on all pipeline stages together; nullopt: one stage is all.
  static std::optional<Program> whole_replica(const StagePlan& stages, const ModelConfig& model,
                                              const BackendSizes& sizes) {
    ProgramOptions options = stages.program.options;
    if (options.stages == 1) return std::nullopt;
    options.stages = options.chunks = 1;
    options.stage = 0;
    return make_llama_program(model, options, sizes);
  }

  void print(const SettledRun& settled, const StagePlan& stages, const WorkCounter& micro_batch,
             const RunForecast& forecast, const RunWidths& widths) const {
    const Program& program = stages.program;
    if (request_.csv) {
      std::cout << forecast_csv_head() << forecast_csv(forecast) << std::flush;
      return;
    }
    const MemoryTable table = make_memory_table(program);
    std::optional<SearchQuestion> question;
    if (request_.search) question = search_question(request_, forecast);
    if (json_) {
      std::cout << "{\"model\": {\"parameters\": " << program.whole_params.num_parameters
                << "}, \"memory\": " << memory_table_json(table) << ", \"stages\": " << stages_json(stages)
                << ", \"micro_batch\": " << counts_json(micro_batch) << ", \"forecast\": " << forecast_json(forecast);
      if (question) std::cout << ", \"search\": " << search_json(search_layouts(*question));
      if (widths.advice) std::cout << ", \"widths\": " << widths_json(*widths.advice);
      std::cout << "}\n" << std::flush;
      return;
    }
    std::cout << settled.note << run_headline(settled.config, program) << "\n"
              << stages_text(stages) << format_memory_table(table) << "\n"
              << counts_text(micro_batch) << "\n"
              << forecast_text(forecast);
    if (question) std::cout << "\n" << search_text(search_layouts(*question), *question);
    if (!widths.note.empty()) std::cout << "\n" << widths.note;
    const WidthAdvice* const measured = widths.advice ? &*widths.advice : nullptr;
    std::cout << "\n" << advice_text(run_advice(settled.config, forecast, measured)) << std::flush;
  }

  ExitCode run_validation(const CommandLine& line) {
    if (!line.positionals.empty() || !line.overrides.empty()) {
      throw ConfigError("command line", "--validate takes no run file and no keys of one",
                        line.positionals.empty() ? line.overrides.front().path : line.positionals.front(),
                        "litespark plan --validate=ROWS.csv");
    }
    validation_.json = json_;
    print_validation(validation_);
    return ExitCode::kDone;
  }

  ForecastRequest request_;
  ValidationRequest validation_;
  std::string device_memory_;
  std::string widths_;
  bool json_ = false;
  std::optional<int64_t> gpus_;
  RunConfig defaults_;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() {
  return std::make_unique<PlanCommand>();
}

}  // namespace litespark::cli
