// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "meter/energy.h"
#include "model/weights.h"
#include "train/corruption_check.h"
#include "train/replica_check.h"

namespace litespark {
namespace {

/// Steps whose norms the spike guard compares with; fewer than this many seen: no judgement yet.
constexpr size_t kSpikeWindow = 32;

/// Relative to their mean. Copies that AdamW moves apart by lr in every step differ by some k x lr: thousandths.
constexpr double kLargestDrift = 0.1;

std::optional<Fp8Losses> fp8_losses(const StepState& state) {
  if (state.fp8_inputs == 0) return std::nullopt;
  const auto share = [](int64_t part, int64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  return Fp8Losses{.overflows = state.fp8_overflows,
                   .inputs_flushed = share(state.fp8_inputs_flushed, state.fp8_inputs),
                   .gradients_flushed = share(state.fp8_gradients_flushed, state.fp8_gradients)};
}

}  // namespace

Trainer::Trainer(Executor& executor, TrainerOptions options, NextBatch next_batch)
    : executor_(executor), options_(std::move(options)), next_batch_(std::move(next_batch)) {
  options_.schedule.validate();
  recent_norms_.reserve(kSpikeWindow + 2);
  if (options_.accumulation <= 0) {
    throw ConfigError("train.accumulation", "must be positive", options_.accumulation, "1 or more");
  }
  const bool accumulates = executor.program().options.accumulates;
  if (has_peers() && accumulates != (options_.accumulation > 1)) {
    throw InternalError("trainer", "the program was made for another accumulation", accumulates ? "several" : "one",
                        options_.accumulation);
  }
  if (is_staged() && executor.program().options.micro_batches != options_.accumulation) {
    throw InternalError("trainer", "the program was made for another accumulation",
                        executor.program().options.micro_batches, options_.accumulation);
  }
  for (auto& outcome : outcomes_) outcome = executor_.backend().make_async_read(sizeof(StepState));
  if (!has_peers()) return;
  clock_.emplace(executor_);
  const int64_t bytes = executor.program().tensors[executor.program().step_sums].bytes();
  for (auto& message : messages_) message = executor_.backend().make_async_read(bytes);
}

Phase Trainer::phase_of(int64_t micro) const {
  if (micro == 0) return Phase::kTrainFirst;
  const bool is_last = micro + 1 == options_.accumulation;
  return is_last && executor_.program().tape(Phase::kTrainLast) != nullptr ? Phase::kTrainLast : Phase::kTrainNext;
}

std::optional<Trainer::MicroBatches> Trainer::run_micro_batches(const StepState& inputs,
                                                                const std::function<bool()>& should_stop) {
  const bool verifies = options_.verify_every > 0 && (steps_done_ + 1) % options_.verify_every == 0;
  MicroBatches done;
  for (int64_t micro = 0; micro < options_.accumulation; ++micro) {
    if (micro > 0 && !has_peers() && should_stop()) return std::nullopt;
    const double asked = monotonic_seconds();
    executor_.enter("data.wait");
    const Batch& batch = next_batch_(static_cast<uint64_t>(steps_done_ * options_.accumulation + micro));
    done.data_wait_seconds += monotonic_seconds() - asked;
    executor_.enter("data.upload");
    upload_batch(executor_, batch, is_staged() ? micro : 0);
    done.tokens += batch.tokens_used();
    if (!is_staged()) executor_.run(phase_of(micro));
    if (micro == 0 && verifies) check_first_micro_batch(executor_, inputs, steps_done_ + 1);
  }
  if (is_staged()) executor_.run(Phase::kTrainStep);
  return done;
}

std::optional<Trainer::Issued> Trainer::issue(const std::function<bool()>& should_stop) {
  const void* const state = executor_.tensor(executor_.program().state).data;
  if (!under_way_) outcome_of(steps_done_).start(state);  // where the step's time begins
  const StepState inputs{.learning_rate = static_cast<float>(options_.schedule.at(steps_done_)),
                         .clip_norm = static_cast<float>(options_.clip_norm),
                         .spike_limit = spike_limit(),
                         .rng_counter = static_cast<uint64_t>(steps_done_)};
  executor_.begin_step(inputs);
  if (has_peers()) {
    executor_.communicator()->set_step(steps_done_ + 1);
    clock_->begin_step(steps_done_ + 1);
  }
  const std::optional<MicroBatches> done = run_micro_batches(inputs, should_stop);
  if (!done) return std::nullopt;
  if (has_peers()) clock_->end_step();
  if (compares_replicas()) check_replicas(executor_, steps_done_ + 1);
  if (has_peers()) {
    // All stages and context ranks of a replica see the same batches; of the last stage the first counts them.
    const ProgramOptions& program = executor_.program().options;
    const bool counts_tokens = program.stage_place().is_last() && program.context_rank() == 0;
    executor_.write_rank_counts({.batch_tokens = counts_tokens ? done->tokens : 0,
                                 .stop_requests = wants_stop_ ? 1 : 0,
                                 .joules = options_.joules_of_rank(),
                                 .seconds = clock_->seconds()});
  } else {
    tokens_done_ += done->tokens;
  }
  if (held_.valid()) executor_.waiting([&] { std::exchange(held_, {}).get(); });
  executor_.run(Phase::kOptimizer);
  ++steps_done_;
  const bool follows_synchronisation = std::exchange(were_copies_joined_, false);
  copies_are_apart_ = sync_small_every() > 1;
  if (steps_done_ % sync_small_every() == 0) synchronise_copies();
  executor_.run(Phase::kPack);
  outcome_of(steps_done_).start(state);
  if (has_peers()) message_of(steps_done_).start(executor_.tensor(executor_.program().step_sums).data);
  return Issued{.step = steps_done_,
                .tokens = tokens_done_,
                .lr = static_cast<double>(inputs.learning_rate),
                .data_wait_seconds = done->data_wait_seconds,
                .follows_synchronisation = follows_synchronisation};
}

StepRecord Trainer::collect(const Issued& issued) {
  AsyncRead& outcome = outcome_of(issued.step);
  StepState state;
  std::memcpy(&state, executor_.waiting([&] { return outcome.wait(); }), sizeof(state));
  if (has_peers()) executor_.communicator()->check_alive();  // a lost rank leaves any number in the sums
  const auto count = static_cast<double>(std::max<int64_t>(state.supervised_tokens, 1));
  if (has_peers()) tokens_done_ += state.counts.batch_tokens;
  StepRecord record{
      .step = issued.step,
      .tokens = has_peers() ? tokens_done_ : issued.tokens,
      .loss = state.loss_sum / count,
      .z_loss = state.z_loss_sum / count,
      .grad_norm = static_cast<double>(state.gradient_norm),
      .lr = issued.lr,
      .supervised_tokens = state.supervised_tokens,
      .joules_of_others = state.counts.joules,
      .stop_requested = state.counts.stop_requests > 0,
      .skipped = state.skipped != 0,
      .skipped_total = state.skipped_steps,
      .seconds = outcome.seconds_since(outcome_of(issued.step - 1)),
      .fp8 = fp8_losses(state),
      .copy_drift = issued.follows_synchronisation ? std::optional(state.largest_copy_drift) : std::nullopt,
      .rank_seconds = seconds_of_ranks(issued.step),
      .data_wait_seconds = issued.data_wait_seconds};
  remember_norm(record);
  enforce_policy(state, record);
  return record;
}

std::vector<double> Trainer::seconds_of_ranks(int64_t step) {
  if (!has_peers()) return {};
  const auto* rows = static_cast<const double*>(executor_.waiting([&] { return message_of(step).wait(); }));
  std::vector<double> seconds(static_cast<size_t>(executor_.program().options.world_ranks()));
  for (size_t rank = 0; rank < seconds.size(); ++rank) {
    seconds[rank] = rows[static_cast<int64_t>(rank) * op::kNumStepSums + op::kStepSeconds];
    if (std::isnan(seconds[rank])) return {};
  }
  return seconds;
}

std::optional<StepRecord> Trainer::step(const std::function<bool()>& should_stop) {
  const std::optional<Issued> before = under_way_;
  under_way_ = issue(should_stop);
  if (before) return collect(*before);
  if (under_way_ && executor_.waiting([&] { return outcome_of(steps_done_).is_done(); })) return finish();
  return std::nullopt;
}

std::optional<StepRecord> Trainer::finish() {
  if (!under_way_) return std::nullopt;
  const Issued last = *under_way_;
  under_way_.reset();
  return collect(last);
}

StepRecord Trainer::step_and_finish() {
  require_nothing_under_way("a step for itself");
  const std::optional<StepRecord> record = step();
  return record ? *record : finish().value();
}

void Trainer::require_nothing_under_way(const char* what) const {
  if (under_way_) {
    throw InternalError("trainer", std::string(what) + " while a step is under way", under_way_->step,
                        "finish() first");
  }
}

bool Trainer::compares_replicas() const {
  return executor_.program().tape(Phase::kReplicas) != nullptr && options_.verify_ranks_every > 0 &&
         steps_done_ % options_.verify_ranks_every == 0;
}

/// The newest norm is left out: on a device that runs behind the host it is not known yet, and what a step does must
/// depend neither on the device nor on whether a save or an evaluation made the host wait.
float Trainer::spike_limit() const {
  if (options_.spike_factor <= 0 || recent_norms_.size() < kSpikeWindow) return 0.0f;
  std::array<double, kSpikeWindow + 1> known;
  size_t num_known = 0;
  const size_t num_seen = recent_norms_.size() - (under_way_ ? 0 : 1);
  for (size_t i = 0; i < num_seen; ++i) {
    if (!std::isnan(recent_norms_[i])) known[num_known++] = recent_norms_[i];
  }
  if (num_known < kSpikeWindow) return 0.0f;
  const std::span<double> newest(known.data() + num_known - kSpikeWindow, kSpikeWindow);
  const auto middle = newest.begin() + kSpikeWindow / 2;
  std::nth_element(newest.begin(), middle, newest.end());
  return static_cast<float>(*middle * options_.spike_factor);
}

void Trainer::remember_norm(const StepRecord& record) {
  // A skipped step counts only as the newest, so that the window is the same however late it is looked at.
  if (!recent_norms_.empty() && std::isnan(recent_norms_.back())) recent_norms_.pop_back();
  recent_norms_.push_back(record.skipped ? std::numeric_limits<double>::quiet_NaN() : record.grad_norm);
  if (recent_norms_.size() > kSpikeWindow + 1) recent_norms_.erase(recent_norms_.begin());
}

void Trainer::enforce_policy(const StepState& state, const StepRecord& record) {
  if (state.bad_tokens > 0) {
    throw DataError("batch", "token ids or labels outside the vocabulary in step " + std::to_string(record.step),
                    state.bad_tokens, "0; the tokenizer does not fit the model");
  }
  if (record.copy_drift && !(*record.copy_drift <= kLargestDrift)) {
    throw NumericError(
        "distribution.sync_small_every",
        "the ranks' own norms and biases differed from their mean before step " + std::to_string(record.step),
        *record.copy_drift, "at most " + std::to_string(kLargestDrift) + " of it",
        "synchronise them more often, or lower optim.lr");
  }
  skipped_in_a_row_ = record.skipped ? skipped_in_a_row_ + 1 : 0;
  if (skipped_in_a_row_ >= options_.nan_limit) {
    throw NumericError("train", "steps skipped in a row", skipped_in_a_row_,
                       "fewer than train.nan_limit = " + std::to_string(options_.nan_limit),
                       "lower optim.lr or look at the data of the last steps");
  }
}

std::optional<EvalResult> Trainer::evaluate(const BatchSource& source, int64_t batches,
                                            const std::function<bool()>& should_stop) {
  require_nothing_under_way("an evaluation");
  synchronise_copies();
  return litespark::evaluate(executor_, source, batches, should_stop);
}

void Trainer::synchronise_copies() {
  if (!copies_are_apart_) return;
  executor_.run(Phase::kSynchronise);
  copies_are_apart_ = false;
  were_copies_joined_ = true;
}

void Trainer::make_weights_whole() {
  require_nothing_under_way("a look at the weights");
  synchronise_copies();
  litespark::make_weights_whole(executor_);
}

Trainer::Progress Trainer::progress() const {
  require_nothing_under_way("progress");
  const StepState state = executor_.read_state();
  return {.steps_done = steps_done_,
          .tokens_done = tokens_done_,
          .skipped_in_a_row = skipped_in_a_row_,
          .optimizer_steps = state.optimizer_steps,
          .skipped_steps = state.skipped_steps,
          .recent_norms = recent_norms_};
}

void Trainer::restore(const Progress& progress) {
  require_nothing_under_way("a restore");
  steps_done_ = progress.steps_done;
  tokens_done_ = progress.tokens_done;
  skipped_in_a_row_ = progress.skipped_in_a_row;
  const std::vector<double>& norms = progress.recent_norms;
  const auto first = static_cast<std::ptrdiff_t>(norms.size() - std::min(norms.size(), kSpikeWindow + 1));
  recent_norms_.assign(norms.begin() + first, norms.end());
  StepState state;
  state.optimizer_steps = progress.optimizer_steps;
  state.skipped_steps = progress.skipped_steps;
  executor_.write_state(state);
}

}  // namespace litespark
