// SPDX-License-Identifier: Apache-2.0
// Attention kernels for processors with a matrix unit: bf16 operands, products of whole tiles.
#include "ops/cpu/tile_math_amx.h"
//
#include "ops/cpu/attention_backward_tile.h"
#include "ops/cpu/attention_kernels.h"

namespace litespark::cpu {
namespace amx {

void forward(const AttentionForwardTask& task) {
  const TileRegisters registers;
  attention_forward<TileMath, bf16>(task);
}

void backward(const AttentionBackwardTask& task) {
  const TileRegisters registers;
  attention_backward<TileMath, bf16>(task);
}

}  // namespace amx

AttentionKernels attention_kernels_amx() {
  return {.forward = amx::forward,
          .backward = amx::backward,
          .row = attention_row<amx::TileMath, bf16>,
          .bf16_elements = true};
}

}  // namespace litespark::cpu
