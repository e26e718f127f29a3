// SPDX-License-Identifier: Apache-2.0
#include "train/run_loop.h"

#include "meter/energy.h"

namespace litespark {

RunEnd run_training(Trainer& trainer, CheckpointSaver* saver, const BatchSource* eval_source, const RunPlan& plan,
                    const RunHooks& hooks) {
  const auto is_due = [&](int64_t every) { return every > 0 && trainer.steps_done() % every == 0; };
  bool is_stopped = false;
  int64_t saved_step = -1;
  const auto report = [&](const std::optional<StepRecord>& record) {
    if (record) hooks.on_step(*record);
  };
  const auto save = [&] {
    if (saver == nullptr || saved_step == trainer.steps_done()) return;
    const double start = monotonic_seconds();
    saver->save(trainer, hooks.totals());
    saved_step = trainer.steps_done();
    hooks.on_save(saved_step, monotonic_seconds() - start);
  };

  while (trainer.steps_done() < plan.steps && !is_stopped) {
    hooks.before_step();
    const std::optional<StepRecord> record = trainer.step();
    hooks.after_step();
    report(record);
    is_stopped = hooks.should_stop();
    if (is_due(plan.eval_every) || is_due(plan.sample_every) || is_due(plan.save_every)) report(trainer.finish());
    if (eval_source != nullptr && !is_stopped && is_due(plan.eval_every)) {
      const auto result = trainer.evaluate(*eval_source, plan.eval_batches, hooks.should_stop);
      if (result) hooks.on_eval(trainer.steps_done(), *result);
      is_stopped = hooks.should_stop();
    }
    if (!is_stopped && is_due(plan.sample_every)) {
      hooks.sample(trainer.steps_done());
      is_stopped = hooks.should_stop();
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
  return is_stopped ? RunEnd::kStopped : RunEnd::kFinished;
}

}  // namespace litespark
