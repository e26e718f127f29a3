// SPDX-License-Identifier: Apache-2.0
// state.json of a checkpoint: the numbers that live outside tensors, written so that they read back bit for bit.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "train/checkpoint.h"

namespace litespark {

struct CheckpointState {
  Trainer::Progress progress;
  RunTotals totals;
  RunIdentity identity;
  std::map<std::string, std::string> tuning;
  DType folder_dtype = DType::kF32;
};

std::string checkpoint_state_json(const CheckpointState& state);

/// Throws DataError naming what is missing or malformed; nothing has a default: a state that lacks its seed or a
/// counter would continue another run.
CheckpointState parse_checkpoint_state(const std::string& text, const std::string& where);

/// Throws ConfigError that lists each name whose text differs.
void require_same_run(const RunIdentity& stored, const RunIdentity& current, const std::string& where);

}  // namespace litespark
