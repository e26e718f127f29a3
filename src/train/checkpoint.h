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
#include "train/snapshot.h"

namespace litespark {

/// The moments' file of a checkpoint; no reader of the model needs it.
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

/// What each data rank had not told the others of its gradients yet; only where there was error feedback.
inline constexpr const char* kResidualFile = "residual.safetensors";

/// What must be equal for a resume to mean anything, as readable text by name ("model", "data", "tokenizer",
/// "schedule", "optimizer", "precision", "batch", "seed").
using RunIdentity = std::map<std::string, std::string>;

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

/// Bytes of a checkpoint on disk, to be free before the run starts. `residuals`: of so many data ranks.
int64_t checkpoint_bytes(const ParamTable& params, DType folder_dtype, int64_t residuals);
/// Data ranks whose residuals a checkpoint of this program holds.
int64_t num_residuals(const Program& program);

struct ResumedState {
  Trainer::Progress progress;
  RunTotals totals;
  std::map<std::string, std::string> tuning;
  /// Euclidean norm of what the ranks of the checkpoint had not told each other of their gradients and that has no
  /// place in this layout: it is dropped.
  double lost_residual = 0;
};

/// Only the choices made by timing, which a backend wants before anything is prepared. Holds state.json against the
/// seal, and the other files' sizes.
std::map<std::string, std::string> read_checkpoint_tuning(const std::filesystem::path& folder);

/// Checks the seal, holds `context.identity` against the stored one (ConfigError listing every difference), then fills
/// the executor's masters and moments and packs the weights. As many data ranks as before take back their residuals;
/// of others the first takes the sum of all.
ResumedState read_checkpoint(const std::filesystem::path& folder, const CheckpointContext& context, Executor& executor);

}  // namespace litespark
