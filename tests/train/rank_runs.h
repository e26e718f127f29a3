// SPDX-License-Identifier: Apache-2.0
// Tiny runs of several ranks, which are threads, and the run of one rank that they are held against.
#pragma once

#include <functional>
#include <vector>

#include "dist/communicator.h"
#include "train/tiny_run.h"

namespace litespark {

struct RankedRun {
  ModelConfig config = tiny_model();
  ProgramOptions options = tiny_program_options();
  TrainerOptions trainer = tiny_trainer_options();
  std::vector<Batch> batches;  ///< of the whole run, in its order
  bool packs = true;           ///< false: matmuls read weights as they are, as on a GPU
  bool joins_swiglu = false;   ///< where nothing is packed: SwiGLU inside the MLP's products
};

/// Twelve micro-batches of uneven documents: a whole number of steps for 1, 2, 3, 4 and 6 of them a step.
std::vector<Batch> twelve_batches();

/// Calls body(run) on each of `ranks` threads, of which options.tensor_ranks x options.stages x options.context_ranks
/// share a micro-batch; throws what the first of them threw.
void on_ranks(int ranks, const RankedRun& run, const std::function<void(TinyRun&)>& body);

struct Outcome {
  std::vector<StepRecord> records;
  std::vector<float> weights, first_moment, second_moment;  ///< flat, in the order of the table
};

/// The state of all ranks brought together; only rank 0 keeps it.
Outcome gathered_state(TinyRun& run);

/// `steps` steps on so many ranks.
Outcome train_ranks(int ranks, const RankedRun& run, int steps);

/// What `ranks` ranks must give bit for bit: one rank that takes each rank's micro-batches by themselves and adds the
/// gradients of all in rank order; with options.shards_gradients, of each micro-batch before the next one's.
Outcome train_in_rank_order(int ranks, RankedRun run, int steps);

double relative_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace litespark
