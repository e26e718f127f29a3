// SPDX-License-Identifier: Apache-2.0
// Where a checkpoint of a tiny run is written to and read from, whatever its layout.
#pragma once

#include <utility>

#include "support/temporary_folder.h"
#include "train/checkpoint_saver.h"
#include "train/rank_runs.h"
#include "train/tiny_run.h"

namespace litespark {

struct SavedRun {
  test::TemporaryFolder folder;
  CheckpointStore store{folder.path() / "checkpoints"};

  CheckpointContext context(const TinyRun& run) const {
    return {.config = run.executor.program().config,
            .params = run.executor.program().whole_params,
            .identity = {{"seed", "5"}},
            .tuning = {},
            .run_toml = "",
            .tokenizer_folder = {},
            .folder_dtype = run.executor.program().options.compute};
  }
};

/// `steps` steps on so many ranks and a save; the state of all of them.
inline Outcome train_and_save(int ranks, const RankedRun& run, int steps, SavedRun& saved, bool is_async = false) {
  Outcome outcome;
  on_ranks(ranks, run, [&](TinyRun& mine) {
    const bool is_first = mine.executor.program().options.world_rank() == 0;
    for (int step = 0; step < steps; ++step) mine.trainer.step_and_finish();
    const CheckpointContext context = saved.context(mine);
    CheckpointSaver saver(mine.executor, saved.store, context, {.is_async = is_async, .writes = is_first});
    saver.save(mine.trainer, {});
    saver.finish();
    Outcome state = gathered_state(mine);
    if (is_first) outcome = std::move(state);
  });
  return outcome;
}

}  // namespace litespark
