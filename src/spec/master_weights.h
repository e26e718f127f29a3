// SPDX-License-Identifier: Apache-2.0
// How the optimizer keeps the weights of matrices: a choice of the run file, carried out by the program's tensors.
// Norm weights and biases have f32 masters whatever the choice: they are few, and every step of theirs counts.
#pragma once

#include <cstdint>

namespace litespark {

enum class MasterWeights : uint8_t {
  kF32,            ///< an f32 master beside the compute copy
  kBF16Remainder,  ///< the bf16 compute copy and a 16-bit remainder hold the f32 master bit for bit
  kBF16,           ///< no master: bf16 weights, updated with stochastic rounding
};

}  // namespace litespark
