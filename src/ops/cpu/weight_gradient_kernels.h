// SPDX-License-Identifier: Apache-2.0
// What the weight gradient hands to the panel kernels of an instruction set: plain pointers and sizes. The kernels own
// no memory and start no threads.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark::cpu {

/// Columns of a panel: four vectors.
inline constexpr int kPanelColumns = 64;

/// Columns of some tokens as a panel [ceil(tokens / pair), kPanelColumns, pair] of elements: f32 and pair = 1, or bf16
/// and pair = 2. What is not there (columns, the last pair's second token) is zero. A matrix unit takes pieces of its
/// own (matmul_weight_gradient_amx.cpp).
struct PanelPacking {
  const void* values = nullptr;  ///< first token, first column
  int64_t stride = 0;            ///< values from token to token
  int64_t tokens = 0;
  int columns = 0;
  void* panel = nullptr;
};

/// gradient [rows, columns] (+)= dY panel^T X panel; each element adds its tokens in order.
struct PanelProduct {
  const void* outputs = nullptr;  ///< panel of dY
  const void* inputs = nullptr;   ///< panel of X
  int64_t tokens = 0;
  float* gradient = nullptr;
  int64_t stride = 0;
  int rows = 0, columns = 0;
  bool accumulate = false;
};

struct PanelKernels {
  void (*pack_outputs)(const PanelPacking& packing) = nullptr;
  void (*pack_inputs)(const PanelPacking& packing) = nullptr;
  void (*multiply)(const PanelProduct& product) = nullptr;
  bool bf16_elements = false;
  int token_step = 1;  ///< tokens that a panel is filled up to a multiple of
  /// Tokens summed in registers, and tokens packed at a time, a multiple of those: a piece of dW is fetched from memory
  /// once for so many.
  int64_t block_tokens = 512, stretch_tokens = 512;

  int64_t element_bytes() const { return bf16_elements ? 2 : 4; }
  /// Of `tokens` tokens of one panel.
  int64_t panel_bytes(int64_t tokens) const {
    return (tokens + token_step - 1) / token_step * token_step * kPanelColumns * element_bytes();
  }
};

PanelKernels panel_kernels_avx2(DType dtype);
PanelKernels panel_kernels_avx512(DType dtype);
/// bf16 only.
PanelKernels panel_kernels_avx512bf16();
PanelKernels panel_kernels_amx();

}  // namespace litespark::cpu
