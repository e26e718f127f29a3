// SPDX-License-Identifier: Apache-2.0
#include "train/run_loop.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/checked.h"
#include "core/error.h"
#include "meter/energy.h"

namespace litespark {
namespace {

/// When to stop. Several ranks must do so behind the same step: what one was asked travels with a step's message, whose
/// record every rank has seen at the latest when the step after it is issued. That is the last one.
class StopAgreement {
 public:
  StopAgreement(Trainer& trainer, const std::function<bool()>& is_asked) : trainer_(trainer), is_asked_(is_asked) {}

  void see(const StepRecord& record) {
    // Where ranks have copies of their own, behind a step that makes them equal: the run is the same wherever it stops.
    if (record.stop_requested) {
      last_step_ = std::min(last_step_, round_up(record.step + 1, trainer_.sync_small_every()));
    }
  }
  bool is_due() {
    if (!trainer_.has_peers()) return is_asked();
    if (is_asked()) trainer_.request_stop();
    return trainer_.steps_done() >= last_step_;
  }
  /// Once asked, for good: what was dropped on its account is not taken up again.
  bool is_asked() { return was_asked_ = was_asked_ || is_asked_(); }

 private:
  Trainer& trainer_;
  const std::function<bool()>& is_asked_;
  bool was_asked_ = false;
  int64_t last_step_ = std::numeric_limits<int64_t>::max();
};

}  // namespace

RunEnd run_training(Trainer& trainer, CheckpointSaver* saver, const BatchSource* eval_source, const RunPlan& plan,
                    const RunHooks& hooks) {
  const auto is_due = [&](int64_t every) { return every > 0 && trainer.steps_done() % every == 0; };
  bool is_stopped = false;
  bool is_finite = true;  // what the newest step reported
  int64_t saved_step = -1;
  StopAgreement stop(trainer, hooks.should_stop);
  const auto report = [&](const std::optional<StepRecord>& record) {
    if (!record) return;
    stop.see(*record);
    is_finite = std::isfinite(record->loss) && std::isfinite(record->grad_norm);
    hooks.on_step(*record);
  };
  const auto save = [&] {
    if (saver == nullptr || saved_step == trainer.steps_done() || (!is_finite && !is_stopped)) return;
    const double start = monotonic_seconds();
    saver->save(trainer, hooks.totals());
    saved_step = trainer.steps_done();
    hooks.on_save(saved_step, monotonic_seconds() - start);
  };

  while (trainer.steps_done() < plan.steps && !is_stopped) {
    hooks.before_step();
    const std::optional<StepRecord> record = trainer.step([&] { return stop.is_asked(); });
    hooks.after_step();
    report(record);
    is_stopped = stop.is_due();
    if (is_due(plan.eval_every) || is_due(plan.sample_every) || is_due(plan.save_every)) report(trainer.finish());
    if (eval_source != nullptr && !is_stopped && is_due(plan.eval_every)) {
      const auto result = trainer.evaluate(*eval_source, plan.eval_batches, hooks.should_stop);
      if (result) hooks.on_eval(trainer.steps_done(), *result);
      is_stopped = stop.is_due();
    }
    if (!is_stopped && is_due(plan.sample_every)) {
      trainer.make_weights_whole();
      hooks.sample(trainer.steps_done());
      is_stopped = stop.is_due();
    }
    if (is_due(plan.save_every)) save();
  }
  report(trainer.finish());
  if (is_stopped || plan.saves_at_end) save();
  if (saver != nullptr && saved_step >= 0) {
    const double start = monotonic_seconds();
    saver->finish();
    hooks.on_save(saved_step, monotonic_seconds() - start);
  }
  if (!is_finite && !is_stopped) {
    throw NumericError("train", "the last step's loss or gradient norm is not finite", trainer.steps_done(),
                       "a run that ends in finite numbers", "checkpoints are from before it; lower optim.lr");
  }
  return is_stopped ? RunEnd::kStopped : RunEnd::kFinished;
}

}  // namespace litespark
