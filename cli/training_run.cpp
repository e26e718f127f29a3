// SPDX-License-Identifier: Apache-2.0
#include "training_run.h"

#include <iostream>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/json_text.h"
#include "core/quote.h"
#include "io/file.h"
#include "machine.h"
#include "meter/energy.h"
#include "run_meter.h"
#include "spec/run_config.h"
#include "stop_request.h"
#include "train/run_options.h"
#include "train/shared_text.h"
#include "training_inputs.h"

namespace litespark::cli {
namespace {

/// Every rank must see what the first sees; throws ConfigError naming what differs.
void require_same_inputs(const RunIdentity& mine, const RunIdentity& first) {
  for (const auto& [name, text] : first) {
    const auto found = mine.find(name);
    if (found != mine.end() && found->second == text) continue;
    throw ConfigError("ranks", name + " is not the first rank's", found == mine.end() ? "nothing" : found->second,
                      text);
  }
}

/// Choices of the first rank of each pipeline stage: stages have products that others have not.
std::map<std::string, std::string> tuning_of_stages(ProgramOptions options, Communicator* ranks, Backend& backend) {
  std::map<std::string, std::string> choices = backend.tuning();
  options.data_rank = options.tensor_rank = 0;
  for (options.stage = 0; options.stages > 1 && options.stage < options.stages; ++options.stage) {
    choices.merge(from_rank(static_cast<int>(options.world_rank()), ranks, backend, backend.tuning()));
  }
  return choices;
}

void warn(int64_t step, const std::vector<std::string>& warnings, MetricsLog& metrics, Progress& progress) {
  for (const std::string& warning : warnings) {
    metrics.add_warning(step, warning);
    progress.note("warning: " + warning);
  }
}

}  // namespace

TrainingRun::TrainingRun(const RunConfig& config, Start start, Program program, Backend& backend, RunMemory& memory,
                         Communicator* ranks)
    : config_(config),
      out_(config.out),
      memory_(memory),
      source_(make_source(config, program, config.data.path)),
      share_(*source_, static_cast<uint64_t>(program.options.replicas()),
             static_cast<uint64_t>(program.options.replica())),
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
      take_sample_(make_sampler(config, executor_)),
      slow_ranks_(from_all_ranks(ranks, backend, host_name())) {
  executor_.set_debug_sync(config.device.debug_sync);
  executor_.set_records_communication(config.distribution.graphs);
  RunIdentity inputs = context_.identity;
  if (eval_source_) inputs["held-out data"] = eval_source_->fingerprint();
  require_same_inputs(inputs, from_first_rank(ranks, backend, inputs));
  context_.tuning.merge(tuning_of_stages(executor_.program().options, ranks, backend));
  if (is_first()) clean_store();
  if (start.checkpoint) {
    const ResumedState resumed = read_checkpoint(*start.checkpoint, context_, executor_);
    trainer_.restore(resumed.progress);
    totals_ = resumed.totals;
    if (is_first() && resumed.lost_residual > 0) {
      std::cerr << "warning: what ranks had not told each other of their gradients, of norm "
                << json_number(resumed.lost_residual) << ", is dropped: this layout does not round them" << std::endl;
    }
  } else {
    fill_weights(executor_, config);
  }
  if (!is_first()) return;
  if (config.checkpoint.at_end || config.checkpoint.every > 0)
    store_.require_space(checkpoint_bytes(context_.params, context_.folder_dtype, num_residuals(executor_.program())));
  write_text_file(out_ / "run.toml", context_.run_toml);
  memory_.prepared([this] { return loader_ ? loader_->held_bytes() : 0; });
}

RunEnd TrainingRun::run_silently() {
  const RunPlan plan = run_plan(config_, eval_source_.get());
  if (trainer_.steps_done() >= plan.steps) return RunEnd::kFinished;
  const StopRequest stop(config_.checkpoint.signal);
  CheckpointSaver saver(executor_, store_, context_, {.is_async = false, .writes = false});
  return run_training(trainer_, &saver, eval_source_.get(), plan, {.should_stop = StopRequest::is_made});
}

RunEnd TrainingRun::run() {
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
                             warn(record.step, slow_ranks_.see(record.rank_seconds), metrics, progress);
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
                (store_.newest() ? plain_text(store_.path_of(*store_.newest()).string()) : "checkpoint: none"));
  progress.note(timeline.finish() + memory_.finish() + meter.finish(trainer_.steps_done(), trainer_.tokens_done()));
  return end;
}

TrainerOptions TrainingRun::options_of_rank() {
  TrainerOptions options = trainer_options(config_);
  if (is_first()) return options;
  const bool is_gpu = executor_.backend().device() == Device::kCuda;
  energy_.emplace(config_, is_gpu, executor_.program().options.world_rank());
  options.joules_of_rank = [this] { return energy_->joules(); };
  return options;
}

void TrainingRun::clean_store() {
  for (const std::string& name : store_.clean()) {
    std::cerr << "litespark: warning: " << plain_text(store_.folder().string() + "/" + name)
              << " has no COMPLETE marker; it is set aside as incomplete-" << plain_text(name) << "\n";
  }
}

void TrainingRun::watch_memory(MetricsLog& metrics, Progress& progress) {
  warn(trainer_.steps_done(), memory_.after_step(trainer_.steps_done()), metrics, progress);
  if (const std::string text = memory_.settled(); !text.empty()) progress.note(text);
}

void TrainingRun::sample(int64_t step, Progress& progress, RunTimeline& timeline) {
  const double start = monotonic_seconds();
  const std::optional<TextSample> text = take_sample_(step, StopRequest::is_made);
  timeline.add_sample(monotonic_seconds() - start);
  if (!text) return;
  samples_->add(*text);
  progress.show_sample(*text);
}

RunStart TrainingRun::this_start() const {
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

const Batch& TrainingRun::next(uint64_t index) {
  if (!loader_) {
    loader_.emplace(
        share_, Loader::Options{
                    .shape = executor_.program().options.batch, .workers = config_.data.workers, .first_index = index});
  }
  return loader_->get(index);
}

}  // namespace litespark::cli
