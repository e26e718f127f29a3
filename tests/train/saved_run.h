// SPDX-License-Identifier: Apache-2.0
// Where a checkpoint of a tiny run is written to and read from, whatever its layout.
#pragma once

#include "support/temporary_folder.h"
#include "train/checkpoint_saver.h"
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

}  // namespace litespark
