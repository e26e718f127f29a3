// SPDX-License-Identifier: Apache-2.0
// `litespark train`: the plan, the weights or a checkpoint, then the loop.
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>

#include "commands.h"
#include "core/text_table.h"
#include "data/loader.h"
#include "data/ranked_source.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "io/sealed_folder.h"
#include "launch.h"
#include "machine.h"
#include "model/self_test.h"
#include "plan/forecast_report.h"
#include "plan_forecast.h"
#include "progress.h"
#include "report/page.h"
#include "run_memory.h"
#include "run_meter.h"
#include "run_ranks.h"
#include "run_sensors.h"
#include "run_setup.h"
#include "spec/param_cut.h"
#include "spec/run_program.h"
#include "stop_request.h"
#include "text_commands.h"
#include "train/metrics_log.h"
#include "train/run_manifest.h"
#include "train/run_options.h"
#include "train/run_timeline.h"
#include "train/shared_text.h"
#include "training_inputs.h"
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
    std::cout << "report: " << report::write_report(out).string() << std::endl;
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
  std::cerr << "warning: the checkpoint was computed with " << was->second << " kernels and this run goes on with "
            << is->second << ": equal up to rounding, not bit for bit (device.isa)" << std::endl;
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

/// Every rank must see what the first sees; throws ConfigError naming what differs.
void require_same_inputs(const RunIdentity& mine, const RunIdentity& first) {
  for (const auto& [name, text] : first) {
    const auto found = mine.find(name);
    if (found != mine.end() && found->second == text) continue;
    throw ConfigError("ranks", name + " is not the first rank's", found == mine.end() ? "nothing" : found->second,
                      text);
  }
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

/// Everything of one run that lives as long as it, on one of its ranks. The first rank, or the only one, writes and
/// speaks; the others only train.
class TrainingRun {
 public:
  struct Start {
    CheckpointStore store;
    std::optional<fs::path> checkpoint;  ///< to continue from
    std::vector<std::string> command;    ///< as typed
  };

  TrainingRun(const RunConfig& config, Start start, Program program, Backend& backend, RunMemory& memory,
              Communicator* ranks)
      : config_(config),
        out_(config.out),
        memory_(memory),
        source_(make_source(config, program, config.data.path)),
        share_(*source_, static_cast<uint64_t>(program.options.data_ranks),
               static_cast<uint64_t>(program.options.data_rank)),
        eval_source_(make_eval_source(config, program)),
        executor_(std::move(program), backend, ranks),
        store_(std::move(start.store)),
        command_(std::move(start.command)),
        context_{.config = executor_.program().config,
                 .params = executor_.program().whole_params,
                 .identity = run_identity(config, executor_.program().config, source_->fingerprint()),
                 .tuning = is_first() ? from_first_rank(ranks, backend, backend.tuning()) : backend.tuning(),
                 .run_toml = run_config_toml(config),
                 .tokenizer_folder = config.data.tokenizer,
                 .folder_dtype = config.precision.compute},
        trainer_(executor_, options_of_rank(), [this](uint64_t index) -> const Batch& { return next(index); }),
        take_sample_(make_sampler(config, executor_)) {
    executor_.set_debug_sync(config.device.debug_sync);
    executor_.set_records_communication(config.distribution.graphs);
    RunIdentity inputs = context_.identity;
    if (eval_source_) inputs["held-out data"] = eval_source_->fingerprint();
    require_same_inputs(inputs, from_first_rank(ranks, backend, inputs));
    if (is_first()) clean_store();
    if (start.checkpoint) {
      const ResumedState resumed = read_checkpoint(*start.checkpoint, context_, executor_);
      trainer_.restore(resumed.progress);
      totals_ = resumed.totals;
    } else {
      fill_weights(executor_, config);
    }
    if (!is_first()) return;
    if (config.checkpoint.at_end || config.checkpoint.every > 0)
      store_.require_space(checkpoint_bytes(context_.params, context_.folder_dtype));
    write_text_file(out_ / "run.toml", context_.run_toml);
    memory_.prepared([this] { return loader_ ? loader_->held_bytes() : 0; });
  }

  bool is_first() const { return executor_.program().options.world_rank() == 0; }

  /// What every rank but the first does.
  RunEnd run_silently() {
    const RunPlan plan = run_plan(config_, eval_source_.get());
    if (trainer_.steps_done() >= plan.steps) return RunEnd::kFinished;
    const StopRequest stop(config_.checkpoint.signal);
    CheckpointSaver saver(executor_, store_, context_, {.is_async = false, .writes = false});
    return run_training(trainer_, &saver, eval_source_.get(), plan, {.should_stop = StopRequest::is_made});
  }

  RunEnd run() {
    RunPlan plan = run_plan(config_, eval_source_.get());
    append_run_start(out_ / "manifest.json", this_start());
    if (trainer_.steps_done() >= plan.steps) {
      std::cout << "nothing to do: " << plan.steps << " steps are done\n";
      return RunEnd::kFinished;
    }
    const StopRequest stop(config_.checkpoint.signal);
    MetricsLog metrics(out_ / "metrics.jsonl", trainer_.steps_done());
    RunMeter meter(config_, executor_, totals_);
    std::cout << meter.headline() << std::flush;
    RunTimeline timeline(executor_, out_, config_.meter.timeline_every);
    if (take_sample_) samples_.emplace(out_ / "samples.jsonl", trainer_.steps_done());
    Progress progress(plan.steps, config_.train.log_every, trainer_.steps_done(), trainer_.tokens_done());
    CheckpointSaver saver(
        executor_, store_, context_,
        {.retention = {.keep_last = config_.checkpoint.keep_last, .keep_every = config_.checkpoint.keep_every},
         .is_async = config_.checkpoint.async});
    int64_t tokens_before = trainer_.tokens_done();
    const RunHooks hooks{.before_step = [&] { timeline.before_step(trainer_.steps_done() + 1); },
                         .after_step =
                             [&] {
                               timeline.after_step(trainer_.steps_done());
                               watch_memory(metrics, progress);
                             },
                         .on_step =
                             [&](const StepRecord& record) {
                               totals_.train_seconds += record.seconds;
                               const StepMeasurements measured = meter.measure(record, record.tokens - tokens_before);
                               tokens_before = record.tokens;
                               metrics.add(record, measured);
                               timeline.add(record);
                               progress.show(record, measured);
                             },
                         .on_eval =
                             [&](int64_t step, const EvalResult& result) {
                               metrics.add_eval(step, result);
                               progress.show_eval(step, result);
                               timeline.add_eval(result);
                             },
                         .on_save =
                             [&](int64_t step, double seconds) {
                               metrics.add_save(step, seconds);
                               timeline.add_save(seconds);
                             },
                         .sample = [&](int64_t step) { sample(step, progress, timeline); },
                         .should_stop = StopRequest::is_made,
                         .totals =
                             [&] {
                               meter.update(totals_);
                               return totals_;
                             }};
    const RunEnd end = run_training(trainer_, &saver, eval_source_.get(), plan, hooks);
    progress.note((end == RunEnd::kStopped ? "stopped; saved "
                   : plan.saves_at_end     ? "done; saved "
                                           : "done; newest ") +
                  (store_.newest() ? store_.path_of(*store_.newest()).string() : "checkpoint: none"));
    progress.note(timeline.finish() + memory_.finish() + meter.finish(trainer_.steps_done(), trainer_.tokens_done()));
    return end;
  }

 private:
  TrainerOptions options_of_rank() {
    TrainerOptions options = trainer_options(config_);
    if (is_first()) return options;
    const bool is_gpu = executor_.backend().device() == Device::kCuda;
    energy_.emplace(config_, is_gpu, executor_.program().options.world_rank());
    options.joules_of_rank = [this] { return energy_->joules(); };
    return options;
  }

  void clean_store() {
    for (const std::string& name : store_.clean()) {
      std::cerr << "litespark: warning: " << store_.folder().string() << "/" << name
                << " has no COMPLETE marker; it is set aside as incomplete-" << name << "\n";
    }
  }

  void watch_memory(MetricsLog& metrics, Progress& progress) {
    for (const std::string& warning : memory_.after_step(trainer_.steps_done())) {
      metrics.add_warning(trainer_.steps_done(), warning);
      progress.note("warning: " + warning);
    }
    if (const std::string text = memory_.settled(); !text.empty()) progress.note(text);
  }

  void sample(int64_t step, Progress& progress, RunTimeline& timeline) {
    const double start = monotonic_seconds();
    const std::optional<TextSample> text = take_sample_(step, StopRequest::is_made);
    timeline.add_sample(monotonic_seconds() - start);
    if (!text) return;
    samples_->add(*text);
    progress.show_sample(*text);
  }

  RunStart this_start() const {
    return {.time = utc_time_text(),
            .from_step = trainer_.steps_done(),
            .command = command_,
            .versions = program_versions(),
            .hardware = machine_facts(executor_.backend()),
            .hashes = {{"config", hash_bytes(std::as_bytes(std::span(context_.run_toml)))},
                       {"data", context_.identity.at("data")},
                       {"tokenizer", context_.identity.at("tokenizer")}},
            .tuning = context_.tuning};
  }

  /// The loader starts where the trainer stands, which a resume decides.
  const Batch& next(uint64_t index) {
    if (!loader_) {
      loader_.emplace(share_, Loader::Options{.shape = executor_.program().options.batch,
                                              .workers = config_.data.workers,
                                              .first_index = index});
    }
    return loader_->get(index);
  }

  const RunConfig& config_;
  fs::path out_;
  RunMemory& memory_;
  std::unique_ptr<BatchSource> source_;
  RankedSource share_;
  std::unique_ptr<BatchSource> eval_source_;
  Executor executor_;
  CheckpointStore store_;
  std::vector<std::string> command_;
  CheckpointContext context_;
  std::optional<Loader> loader_;
  std::optional<RankEnergy> energy_;  ///< of every rank but the first, which has a RunMeter
  Trainer trainer_;
  TakeSample take_sample_;
  std::optional<SampleLog> samples_;
  RunTotals totals_;
};

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
    RunConfig config = load_run(with_gpus(line, gpus_));
    (void)grid_intensity(config.meter.grid, config.meter.grid_intensity);  // refused before anything is made
    const auto place = place_among_ranks(config);
    refuse_unsupported(config);
    check_tokenizer(config);
    const ModelConfig model = model_of(config);
    require_cut(model, config.cluster.tp);
    if (config.cluster.gpus > 1 && !place) {
      if (!config.distribution.secret_file.empty()) {
        throw ConfigError("distribution.secret_file",
                          "has no effect: ranks that this program starts have a secret of their own",
                          config.distribution.secret_file, "no such key with --gpus");
      }
      return launch_ranks(static_cast<int>(config.cluster.gpus), line.arguments, wants_cuda(config));
    }
    RunMemory memory(config);
    const std::unique_ptr<Backend> backend = make_backend(config, device_of(place));
    memory.opened(*backend);
    const std::unique_ptr<DistContext> others = meet_ranks(config, place, *backend);
    if (!others) return run_first(line, config, model, memory, *backend, nullptr);
    Communicator& ranks = others->communicator();
    try {
      return ranks.rank() == 0 ? run_first(line, config, model, memory, *backend, &ranks)
                               : run_other(config, model, memory, *backend, ranks);
    } catch (const std::exception& error) {
      ranks.abort(error.what());
      throw;
    }
  }

 private:
  /// The only rank, or that which decides, writes and speaks for all.
  static ExitCode run_first(const CommandLine& line, RunConfig config, const ModelConfig& model, RunMemory& memory,
                            Backend& backend, Communicator* ranks) {
    const fs::path folder = make_run_folder(config);
    spare_run_file(folder / "run.toml", line.positionals.at(0));
    const FolderLock lock(folder);
    if (!lock.is_held()) std::cerr << "warning: " << folder.string() << ": this file system knows no locks\n";
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
    Program program = make_llama_program(model, training_options(config), backend.sizes());
    const std::string headline = run_headline(config, program);
    std::cout << headline << decay_groups_text(program.whole_params) << "\n"
              << memory.plan(program, headline.substr(0, headline.find('\n'))) << std::endl;
    write_forecast(config, model, program, backend);
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
    options.data_rank = ranks.rank() / options.tensor_ranks;
    options.tensor_rank = ranks.rank() % options.tensor_ranks;
    Program program = make_llama_program(model, options, backend.sizes());
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
