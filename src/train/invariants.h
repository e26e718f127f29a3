// SPDX-License-Identifier: Apache-2.0
// What must hold on every machine, tried on a model of a few thousand parameters: a resumed run continues bit for bit,
// accumulation and packing change nothing but the order of sums, an export comes back as it was.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "train/verify_case.h"

namespace litespark {

/// What a short training of the small model leaves.
struct SmallTraining {
  std::vector<double> losses;  ///< one a step
  std::vector<float> weights;  ///< all masters, in table order
};

/// Four steps in f32 from a fixed seed on fixed tokens.
SmallTraining train_small_model(Backend& backend);

/// Largest relative difference of the losses, and relative L2 distance of the weights, the larger of the two; infinite
/// when anything is not finite.
double training_difference(const SmallTraining& a, const SmallTraining& b);

/// True when losses and weights have the same bits.
bool is_same_training(const SmallTraining& a, const SmallTraining& b);

/// Checks "resume", "accumulation", "packing", "export": error 0 where equal bits are demanded. Writes a checkpoint
/// below `scratch`, which is the caller's to remove. Throws IoError when it cannot.
std::vector<VerifyCheck> check_invariants(Backend& backend, const std::filesystem::path& scratch);

}  // namespace litespark
