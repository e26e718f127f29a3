// SPDX-License-Identifier: Apache-2.0
// The weight gradient's panel kernels for AVX2.
#include "ops/cpu/vec16_avx2.h"
#include "ops/cpu/weight_gradient_panel.h"

namespace litespark::cpu {

PanelKernels panel_kernels_avx2(DType dtype) {
  using Math = F32Math<avx2::Vec16, 1>;
  return dtype == DType::kBF16 ? make_panel_kernels<Math, bf16>() : make_panel_kernels<Math, float>();
}

}  // namespace litespark::cpu
