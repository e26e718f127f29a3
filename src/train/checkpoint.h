// SPDX-License-Identifier: Apache-2.0
// A training state as a sealed folder: a Hugging Face folder that other tools load, the optimizer's moments beside it,
// and what a resume needs to continue bit for bit or to say why it cannot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/executor.h"
#include "train/trainer.h"

namespace litespark {

/// The moments' file of a checkpoint; no reader of the model needs it.
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

/// What must be equal for a resume to mean anything, as readable text by name ("model", "data", "tokenizer",
/// "schedule", "optimizer", "precision", "batch", "seed").
using RunIdentity = std::map<std::string, std::string>;

/// Totals that go on over restarts.
struct RunTotals {
  double joules = 0;             ///< measured or estimated so far; means nothing while no second is metered
  double metered_seconds = 0;    ///< wall time that the joules cover
  double unmetered_seconds = 0;  ///< wall time whose energy is unknown
  double train_seconds = 0;      ///< of steps alone

  bool operator==(const RunTotals&) const = default;
};

/// A copy of everything, on the host, taken between two steps: training may go on while it is written.
struct TrainingSnapshot {
  Trainer::Progress progress;
  RunTotals totals;
  std::vector<float> master, first_moment, second_moment;  ///< flat, [ParamTable::flat_size]
};

/// Bytes that one snapshot holds on the host.
int64_t snapshot_bytes(const Program& program);

/// Fills `snapshot` (its buffers are reused) from the device.
void take_snapshot(const Executor& executor, const Trainer& trainer, const RunTotals& totals,
                   TrainingSnapshot& snapshot);

struct CheckpointContext {
  const ModelConfig& config;
  const ParamTable& params;
  RunIdentity identity;
  std::map<std::string, std::string> tuning;  ///< choices made by timing, taken from here on resume
  std::string run_toml;                       ///< effective configuration, stored beside
  std::filesystem::path tokenizer_folder;     ///< its files are copied; empty: none
  DType folder_dtype = DType::kF32;           ///< of the Hugging Face folder; bf16: masters go beside the moments
};

/// Writes `destination` as a sealed folder. Throws IoError; nothing is left behind then.
void write_checkpoint(const std::filesystem::path& destination, const TrainingSnapshot& snapshot,
                      const CheckpointContext& context);

/// Bytes of a checkpoint on disk, to be free before the run starts.
int64_t checkpoint_bytes(const ParamTable& params, DType folder_dtype);

struct ResumedState {
  Trainer::Progress progress;
  RunTotals totals;
  std::map<std::string, std::string> tuning;
};

/// Only the choices made by timing, which a backend wants before anything is prepared. Holds state.json against the
/// seal, and the other files' sizes.
std::map<std::string, std::string> read_checkpoint_tuning(const std::filesystem::path& folder);

/// Checks the seal, holds `context.identity` against the stored one (ConfigError listing every difference), then fills
/// the executor's masters and moments and packs the weights.
ResumedState read_checkpoint(const std::filesystem::path& folder, const CheckpointContext& context, Executor& executor);

}  // namespace litespark
