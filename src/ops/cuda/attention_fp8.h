// SPDX-License-Identifier: Apache-2.0
// Attention's forward on 8-bit floats: Hopper only, heads of 128 (gpu_has_fp8_attention).
#pragma once

#include "core/backend_sizes.h"
#include "ops/cuda/attention_portable.h"

namespace litespark::cuda {

/// Whether there is a kernel on this device.
inline bool has_fp8_forward(const op::AttentionShape& shape, const DeviceContext& context) {
  return context.compute_capability == 90 && gpu_has_fp8_attention(shape);
}

/// What op::QuantizeQkv writes.
struct Fp8Operands {
  const void* queries_keys = nullptr;
  const void* values = nullptr;
  const float* scale = nullptr;
};

/// Of `arguments` neither qkv nor keys_values are read (attention_forward_sm90.cu).
void launch_attention_forward_fp8(const AttentionArguments& arguments, const Fp8Operands& operands,
                                  const DeviceContext& context);

}  // namespace litespark::cuda
