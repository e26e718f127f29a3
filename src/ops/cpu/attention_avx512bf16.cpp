// SPDX-License-Identifier: Apache-2.0
// Attention kernels for AVX-512 with bf16 dot products: operands stay bf16.
#include "ops/cpu/attention_backward_tile.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/bf16_math_avx512.h"

namespace litespark::cpu {

AttentionKernels attention_kernels_avx512bf16() {
  using Math = avx512bf16::Bf16Math;
  return {.forward = attention_forward<Math, bf16>,
          .backward = attention_backward<Math, bf16>,
          .row = attention_row<Math, bf16>,
          .bf16_elements = true};
}

}  // namespace litespark::cpu
