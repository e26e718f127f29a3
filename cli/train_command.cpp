// SPDX-License-Identifier: Apache-2.0
// `litespark train`: the plan, the weights or a checkpoint, then the loop.
#include <filesystem>
#include <iostream>
#include <optional>

#include "call_record_file.h"
#include "commands.h"
#include "core/quote.h"
#include "core/text_table.h"
#include "elastic.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "io/sealed_folder.h"
#include "launch.h"
#include "machine.h"
#include "meter/carbon.h"
#include "model/self_test.h"
#include "plan/forecast_report.h"
#include "plan/stage_plan.h"
#include "plan_forecast.h"
#include "report/page.h"
#include "run_memory.h"
#include "run_ranks.h"
#include "run_setup.h"
#include "spec/llama_program_checks.h"
#include "spec/param_cut.h"
#include "spec/run_program.h"
#include "stop_request.h"
#include "text_commands.h"
#include "train/run_options.h"
#include "train/shared_text.h"
#include "training_inputs.h"
#include "training_run.h"
#include "tuning_memory.h"

namespace litespark::cli {
namespace {

namespace fs = std::filesystem;

/// The checkpoint that the run file's `resume` means; nullopt: start afresh.
std::optional<fs::path> resume_from(const RunConfig& config, const CheckpointStore& store) {
  const auto newest = store.newest();
  if (config.checkpoint.resume == "auto") return newest ? std::optional(store.path_of(*newest)) : std::nullopt;
  if (config.checkpoint.resume != "never") {
    if (is_sealed(config.checkpoint.resume)) return fs::path(config.checkpoint.resume);
    throw ConfigError("checkpoint.resume", "is no complete checkpoint", config.checkpoint.resume,
                      "auto, never or a step folder with its COMPLETE marker");
  }
  if (newest) {
    throw ConfigError("checkpoint.resume", "\"never\", but the run folder holds checkpoints",
                      store.path_of(*newest).string(), "an empty run folder", "choose another `out`");
  }
  return std::nullopt;
}

/// What the memory plan chose when the run began: another choice would give other bits.
void take_choices(RunConfig& config, const fs::path& checkpoint) {
  const RunConfig before = read_run_file(checkpoint / "run.toml");
  if (before.sequences_per_step() != config.sequences_per_step()) return;  // refused as another run soon after
  config.train.micro_batch = before.train.micro_batch;
  config.train.accumulation = before.train.accumulation;
  config.memory.recompute = before.memory.recompute;
}

/// What device.kind = "cuda" excludes is excluded where "auto" means a GPU.
void check_on_gpu(RunConfig config) {
  config.device.kind = DeviceKind::kCuda;
  config.validate();
}

fs::path make_run_folder(const RunConfig& config) {
  std::error_code status;
  fs::create_directories(config.out, status);
  if (status) throw IoError(config.out, "the run folder cannot be made: " + status.message());
  return config.out;
}

/// The effective configuration is written into the run folder: never over a file that somebody wrote by hand.
void spare_run_file(const fs::path& written, const std::string& run_file) {
  std::error_code status;
  if (!fs::equivalent(written, run_file, status)) return;
  const int64_t most = int64_t{1} << 20;
  if (read_text_file(written, most) == run_config_toml(read_run_file(written))) return;
  throw ConfigError("out", "the run would write its effective configuration over the run file", run_file,
                    "a run folder of its own");
}

std::string decay_groups_text(const ParamTable& params) {
  int64_t decayed = 0;
  int64_t plain = 0;
  for (const ParamSpec& param : params.params) (param.is_decayed ? decayed : plain) += param.shape.num_elements();
  return "weight decay on " + count_text(decayed) + " parameters (tensors of two or more dimensions), none on " +
         count_text(plain) + "\n";
}

/// The run is done whatever becomes of its page, so a failure is only said.
void write_run_report(const fs::path& out) {
  try {
    std::cout << "report: " << plain_text(report::write_report(out).string()) << std::endl;
  } catch (const Error& error) {
    std::cerr << "warning: no report: " << error.what() << std::endl;
  }
}

/// A resume on another processor is wanted and cannot give the same bits.
void warn_of_other_kernels(const std::map<std::string, std::string>& before, const Backend& backend) {
  const auto now = backend.tuning();
  const auto was = before.find(kKernelsTuning);
  const auto is = now.find(kKernelsTuning);
  if (was == before.end() || is == now.end() || was->second == is->second) return;
  std::cerr << "warning: the checkpoint was computed with " << plain_text(was->second)
            << " kernels and this run goes on with " << is->second
            << ": equal up to rounding, not bit for bit (device.isa)" << std::endl;
}

/// For the report to hold against what comes; a machine that the planner does not know is no reason not to train.
void write_forecast(const RunConfig& config, const ModelConfig& model, const Program& program, const Backend& backend) {
  try {
    write_text_file(fs::path(config.out) / "forecast.json",
                    forecast_json(forecast_here(config, model, program, backend)) + "\n");
  } catch (const ConfigError& error) {
    std::cerr << "warning: no forecast: " << error.what() << std::endl;
  }
}

/// Ranks of one machine share its memory, unless each has a board of its own.
std::optional<int64_t> share_of_free(const RunConfig& config, const Backend& backend) {
  const std::optional<int64_t> free = backend.free_bytes();
  if (!free || backend.device() == Device::kCuda) return free;
  return *free / (config.cluster.gpus / config.cluster.nodes);
}

/// What the first rank decides for all before there is a program.
struct SharedChoices {
  RunConfig config;
  std::optional<fs::path> checkpoint;
};

SharedChoices share_choices(Communicator* ranks, Backend& backend, const SharedChoices& mine) {
  if (ranks == nullptr) return mine;
  const auto shared = from_first_rank(
      ranks, backend,
      std::map<std::string, std::string>{{"run", run_config_toml(mine.config)},
                                         {"checkpoint", mine.checkpoint ? mine.checkpoint->string() : ""}});
  SharedChoices choices;
  read_toml(shared.at("run"), "the first rank's run.toml", Fields::of(choices.config));
  if (!shared.at("checkpoint").empty()) choices.checkpoint = shared.at("checkpoint");
  return choices;
}

/// Where it is not what one host alone would have.
void say_reduction(const RunConfig& config, DistContext& ranks) {
  const bool is_usual =
      config.distribution.reduction == ReductionLevels::kAuto && ranks.reduction().starts_with("flat");
  if (ranks.communicator().rank() == 0 && !ranks.reduction().empty() && !is_usual)
    std::cout << "reduction: " << ranks.reduction() << std::endl;
  if (ranks.communicator().rank() == 0 && !ranks.tiers().empty()) std::cout << ranks.tiers() << std::endl;
}

class TrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "train",
            .purpose = "Trains a model as a run file says; continues the run when its folder holds a checkpoint.",
            .positionals = {{.name = "RUN.toml", .help = "The run file."}},
            .example = "litespark train configs/5m.toml --train.steps=100 --optim.lr=1e-3",
            .computes = true};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "gpus",
                .value = &gpus_,
                .help = "Short for --cluster.gpus=N.",
                .unit = "devices",
                .range = between(1, 1 << 20)});
  }

  void visit_file(Fields& fields) override { defaults_.visit(fields); }

  ExitCode run(const CommandLine& line) override {
    SignalWatch signals;
    RunConfig config = load_run(with_gpus(line, gpus_));
    signals.add(config.checkpoint.signal);
    (void)grid_intensity(config.meter.grid, config.meter.grid_intensity);  // refused before anything is made
    const auto place = place_among_ranks(config);
    signals.set_speaks(!place || place->rank == 0);
    const bool starts_ranks = config.meets_ranks() && !place;
    if (!starts_ranks && (!place || place->rank == 0)) warn_of_ignored_settings(config);  // once in all ranks
    refuse_unsupported(config);
    if (wants_cuda(config)) check_on_gpu(config);
    check_tokenizer(config);
    const ModelConfig model = model_of(config);
    require_cut(model, config.cluster.tp);
    require_layers(model, config.cluster.pp, config.cluster.vpp, config.cluster.pp_layers);
    require_context_rows(config.train.micro_batch * config.data.seq_len, config.cluster.cp, config.cluster.tp);
    if (config.cluster.ep > 1) {
      throw ConfigError("cluster.ep", "spreads experts over ranks, and models that can be trained have none",
                        config.cluster.ep, 1);
    }
    if (starts_ranks) {
      if (!config.distribution.secret_file.empty()) {
        throw ConfigError("distribution.secret_file",
                          "has no effect: ranks that this program starts have a secret of their own",
                          config.distribution.secret_file, "no such key with --gpus");
      }
      return launch_all(line, config);
    }
    RunMemory memory(config);
    const std::unique_ptr<Backend> backend = make_backend(config, device_of(place));
    memory.opened(*backend);
    const CallRecordFile record(config, place);
    const std::unique_ptr<DistContext> others = meet_ranks(config, place, *backend, record.record());
    if (!others) return run_first(line, config, model, memory, *backend, nullptr);
    Communicator& ranks = others->communicator();
    say_reduction(config, *others);
    try {
      return ranks.rank() == 0 ? run_first(line, config, model, memory, *backend, &ranks)
                               : run_other(config, model, memory, *backend, ranks);
    } catch (const std::exception& error) {
      ranks.abort(error.what());
      throw;
    }
  }

 private:
  static ExitCode launch_all(const CommandLine& line, const RunConfig& config) {
    const auto ranks = static_cast<int>(config.cluster.gpus);
    if (!config.distribution.elastic) return launch_ranks(ranks, line.arguments, wants_cuda(config));
    const fs::path checkpoints = fs::path(config.out) / "checkpoints";
    return run_elastic({.config = config,
                        .line = line,
                        .devices = wants_cuda(config) ? devices_for(ranks) : std::vector<std::string>{},
                        .launch = launch,
                        .newest_step = [checkpoints]() -> std::optional<int64_t> {
                          if (!fs::exists(checkpoints)) return std::nullopt;
                          return CheckpointStore(checkpoints).newest();
                        }});
  }

  /// The only rank, or that which decides, writes and speaks for all.
  static ExitCode run_first(const CommandLine& line, RunConfig config, const ModelConfig& model, RunMemory& memory,
                            Backend& backend, Communicator* ranks) {
    const fs::path folder = make_run_folder(config);
    spare_run_file(folder / "run.toml", line.positionals.at(0));
    const FolderLock lock(folder);
    if (!lock.is_held())
      std::cerr << "warning: " << plain_text(folder.string()) << ": this file system knows no locks\n";
    TrainingRun::Start start{
        .store = CheckpointStore(folder / "checkpoints"), .checkpoint = {}, .command = line.arguments};
    start.checkpoint = resume_from(config, start.store);
    const TuningMemory tuning(config, backend);
    if (start.checkpoint) {
      const auto tuning_before = read_checkpoint_tuning(*start.checkpoint);
      warn_of_other_kernels(tuning_before, backend);
      backend.set_tuning(tuning_before);
    }
    require_right_matmul(backend, config.precision.compute);
    if (start.checkpoint && config.train.micro_batch == 0) take_choices(config, *start.checkpoint);
    const SettledRun settled = fit_into_memory(config, model, backend.sizes(), share_of_free(config, backend));
    config = settled.config;
    std::cout << settled.note;
    (void)share_choices(ranks, backend, {.config = config, .checkpoint = start.checkpoint});
    const ProgramOptions options = training_options(config);
    const StagePlan stages = plan_stages(model, options, backend.sizes());
    Program program = stages.fullest == 0 ? stages.program : make_llama_program(model, options, backend.sizes());
    const std::string headline = run_headline(config, program);
    std::cout << headline << decay_groups_text(program.whole_params) << "\n"
              << stages_text(stages) << memory.plan(program, headline.substr(0, headline.find('\n'))) << std::endl;
    write_forecast(config, model, stages.program, backend);
    TrainingRun training(config, std::move(start), std::move(program), backend, memory, ranks);
    tuning.keep(backend);
    const RunEnd end = training.run();
    write_run_report(config.out);
    return end == RunEnd::kStopped ? ExitCode::kStopped : ExitCode::kDone;
  }

  static ExitCode run_other(const RunConfig& given, const ModelConfig& model, RunMemory& memory, Backend& backend,
                            Communicator& ranks) {
    require_right_matmul(backend, given.precision.compute);
    const SharedChoices choices = share_choices(&ranks, backend, {.config = given, .checkpoint = {}});
    ProgramOptions options = training_options(choices.config);
    options.take_place(ranks.rank());
    Program program = make_llama_program(model, options, backend.sizes());
    // The first rank has chosen for what it runs itself; other pipeline stages have more.
    if (choices.checkpoint) backend.set_tuning(read_checkpoint_tuning(*choices.checkpoint));
    backend.set_tuning(from_first_rank(&ranks, backend, std::map<std::string, std::string>{}));
    TrainingRun training(choices.config,
                         {.store = CheckpointStore(fs::path(choices.config.out) / "checkpoints"),
                          .checkpoint = choices.checkpoint,
                          .command = {}},
                         std::move(program), backend, memory, &ranks);
    return training.run_silently() == RunEnd::kStopped ? ExitCode::kStopped : ExitCode::kDone;
  }

  std::optional<int64_t> gpus_;
  RunConfig defaults_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() {
  return std::make_unique<TrainCommand>();
}

}  // namespace litespark::cli
