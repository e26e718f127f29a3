// SPDX-License-Identifier: Apache-2.0
#include "train/run_timeline.h"

#include "io/file.h"
#include "meter/energy.h"

namespace litespark {
namespace {

/// A page of a run that goes on is at most this old; writing syncs the disk, so not after every sample.
constexpr double kSecondsBetweenWrites = 10;

}  // namespace

RunTimeline::RunTimeline(Executor& executor, std::filesystem::path out, int64_t every)
    : executor_(executor),
      out_(std::move(out)),
      schedule_({.every = every}),
      observer_(executor.backend().make_timer()) {}

void RunTimeline::before_step(int64_t step) {
  step_ = step;
  if (++steps_here_ == 1) start_seconds_ = monotonic_seconds();
  step_start_seconds_ = monotonic_seconds();
  if (!schedule_.is_due(steps_here_)) return;
  executor_.set_observer(&observer_);
  observer_.begin();
}

void RunTimeline::after_step(int64_t steps_done) {
  const bool was_sampled = executor_.is_observed();
  SampledStep sample;
  if (was_sampled) {
    sample = observer_.end(step_);
    executor_.set_observer(nullptr);
  }
  if (steps_done < step_) return;
  schedule_.took(monotonic_seconds() - step_start_seconds_, was_sampled);
  if (!was_sampled) return;
  timeline_.add(sample);
  if (!has_trace_) write_text_file(out_ / "trace.json", chrome_trace_json(sample));
  has_trace_ = true;
  if (monotonic_seconds() - written_seconds_ >= kSecondsBetweenWrites) write();
}

void RunTimeline::add(const StepRecord& record) {
  run_.steps += record.seconds;
  run_.data_wait += record.data_wait_seconds;
}

const RunSeconds& RunTimeline::run_seconds() {
  if (steps_here_ > 0) run_.whole = monotonic_seconds() - start_seconds_;
  return run_;
}

void RunTimeline::write() {
  const ObservingCost cost{.seconds = schedule_.cost_seconds(), .share = schedule_.cost_share()};
  write_text_file(out_ / "timeline.json", timeline_json(timeline_, run_seconds(), cost));
  written_seconds_ = monotonic_seconds();
}

std::string RunTimeline::finish() {
  write();
  return timeline_text(timeline_, run_seconds());
}

}  // namespace litespark
