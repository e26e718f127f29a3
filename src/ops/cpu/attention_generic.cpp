// SPDX-License-Identifier: Apache-2.0
// Attention kernels for any processor; slow, but the same tiles.
#include "ops/cpu/attention_backward_tile.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/vec16_generic.h"

namespace litespark::cpu {

AttentionKernels attention_kernels_generic(DType dtype) {
  using Math = F32Math<generic::Vec16, 1>;
  if (dtype == DType::kBF16) {
    return {.forward = attention_forward<Math, bf16>,
            .backward = attention_backward<Math, bf16>,
            .row = attention_row<Math, bf16>};
  }
  return {.forward = attention_forward<Math, float>,
          .backward = attention_backward<Math, float>,
          .row = attention_row<Math, float>};
}

}  // namespace litespark::cpu
