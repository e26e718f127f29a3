// SPDX-License-Identifier: Apache-2.0
// Attention kernels for AVX2: 6 rows x 16 lanes fill twelve of the sixteen registers with sums.
#include "ops/cpu/attention_backward_tile.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/vec16_avx2.h"

namespace litespark::cpu {

AttentionKernels attention_kernels_avx2(DType dtype) {
  using Math = F32Math<avx2::Vec16, 1>;
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
