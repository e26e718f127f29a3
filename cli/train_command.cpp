// SPDX-License-Identifier: Apache-2.0
// `litespark train`: the plan, the weights, then step after step with one line each.
#include <filesystem>
#include <iostream>

#include "commands.h"
#include "core/text_table.h"
#include "data/synthetic_source.h"
#include "data/text_source.h"
#include "io/file.h"
#include "model/weights.h"
#include "plan/memory_table.h"
#include "run_setup.h"
#include "spec/run_program.h"
#include "train/trainer.h"

namespace litespark::cli {
namespace {

/// Larger texts belong into shards.
constexpr int64_t kLargestTextBytes = int64_t{4} << 30;

std::unique_ptr<BatchSource> make_source(const RunConfig& config, const Program& program) {
  const auto seed = static_cast<uint64_t>(config.seed);
  const BatchShape& shape = program.options.batch;
  switch (config.data.source) {
    case DataSource::kSynthetic: return std::make_unique<SyntheticSource>(seed, program.config.vocab_size, shape);
    case DataSource::kText:
      return std::make_unique<TextSource>(read_text_file(config.data.path, kLargestTextBytes), seed, shape);
    case DataSource::kShards: break;
  }
  throw ConfigError("data.source", "cannot be trained on by this version", "shards", "synthetic or text");
}

void fill_weights(Executor& executor, const RunConfig& config) {
  if (config.model.init == ModelInit::kScratch) {
    initialise_weights(executor, static_cast<uint64_t>(config.seed));
  } else {
    load_weights(executor, config.model.path);
  }
}

TrainerOptions trainer_options(const RunConfig& config) {
  // ScheduleKind and Decay list the same names in the same order; the run file's text is what both stand for.
  return {.schedule = {.decay = static_cast<Decay>(config.schedule.name),
                       .peak = config.optim.lr,
                       .warmup_steps = config.schedule.warmup,
                       .total_steps = config.train.steps,
                       .final_fraction = config.schedule.final_fraction,
                       .decay_fraction = config.schedule.decay_fraction},
          .accumulation = config.train.accumulation,
          .clip_norm = config.optim.clip_norm,
          .nan_limit = config.train.nan_limit,
          .spike_factor = config.train.spike_factor};
}

void print_step(const RunConfig& config, const StepRecord& record) {
  const double tokens = static_cast<double>(config.tokens_per_step());
  std::cout << "step " << record.step << "/" << config.train.steps << "  loss " << fixed_text(record.loss, 4)
            << "  grad norm " << fixed_text(record.grad_norm, 3) << "  lr " << record.lr << "  "
            << fixed_text(tokens / record.seconds, 0) << " tokens/s" << (record.skipped ? "  skipped" : "")
            << std::endl;
}

class TrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "train",
            .purpose = "Trains a model as a run file says.",
            .positionals = {{.name = "RUN.toml", .help = "The run file."}},
            .takes_run_file = true,
            .example = "litespark train configs/5m.toml --train.steps=100 --optim.lr=1e-3"};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "gpus",
                .value = &gpus_,
                .help = "Short for --cluster.gpus=N.",
                .unit = "devices",
                .range = between(1, 1 << 20)});
  }

  ExitCode run(const CommandLine& line) override {
    const RunConfig config = load_run(with_gpus(line, gpus_));
    if (config.task != Task::kPretrain) {
      throw ConfigError("task", "is not supported yet", "another task", "pretrain");
    }
    const std::unique_ptr<Backend> backend = make_backend(config);
    Program program = make_llama_program(model_of(config), training_options(config), backend->sizes());
    std::cout << run_headline(config, program) << "\n" << format_memory_table(make_memory_table(program)) << std::endl;
    const std::unique_ptr<BatchSource> source = make_source(config, program);
    const BatchShape shape = program.options.batch;
    Executor executor(std::move(program), *backend);
    fill_weights(executor, config);
    write_text_file(run_folder(config) / "run.toml", run_config_toml(config));

    Batch batch;
    Trainer trainer(executor, trainer_options(config), [&](uint64_t index) -> const Batch& {
      batch.reset(shape);
      source->fill(index, batch);
      return batch;
    });
    while (trainer.steps_done() < config.train.steps) {
      const StepRecord record = trainer.step();
      if (record.step % config.train.log_every == 0 || record.step == config.train.steps) print_step(config, record);
    }
    return ExitCode::kDone;
  }

 private:
  static std::filesystem::path run_folder(const RunConfig& config) {
    std::error_code status;
    std::filesystem::create_directories(config.out, status);
    if (status) throw IoError(config.out, "the run folder cannot be made: " + status.message());
    return config.out;
  }

  std::optional<int64_t> gpus_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() {
  return std::make_unique<TrainCommand>();
}

}  // namespace litespark::cli
