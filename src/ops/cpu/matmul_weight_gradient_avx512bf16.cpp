// SPDX-License-Identifier: Apache-2.0
// The weight gradient's panel kernels for AVX-512 with bf16 dot products: operands stay bf16.
#include "ops/cpu/bf16_math_avx512.h"
#include "ops/cpu/weight_gradient_panel.h"

namespace litespark::cpu {

PanelKernels panel_kernels_avx512bf16() {
  return make_panel_kernels<avx512bf16::Bf16Math, bf16>();
}

}  // namespace litespark::cpu
