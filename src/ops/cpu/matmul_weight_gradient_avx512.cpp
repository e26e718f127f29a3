// SPDX-License-Identifier: Apache-2.0
// The weight gradient's panel kernels for AVX-512.
#include "ops/cpu/vec16_avx512.h"
#include "ops/cpu/weight_gradient_panel.h"

namespace litespark::cpu {

PanelKernels panel_kernels_avx512(DType dtype) {
  using Math = F32Math<avx512::Vec16, 4>;
  return dtype == DType::kBF16 ? make_panel_kernels<Math, bf16>() : make_panel_kernels<Math, float>();
}

}  // namespace litespark::cpu
