// SPDX-License-Identifier: Apache-2.0
// Products of the MLP with SwiGLU inside, for Hopper: one launch each for what the backend else does in two.
#pragma once

#include "core/op/gated.h"
#include "core/tensor.h"

namespace litespark::cuda {

struct DeviceContext;

/// Whether the kernels take this: bf16, C and F multiples of 8, a part of compute capability 9.0.
bool has_gated_product(DType dtype, int64_t depth, int64_t columns, const DeviceContext& context);

/// Both where has_gated_product says so, on the context's stream. Sums are made in the order of depth, in fp32.
void launch_gated_forward(const op::GatedForward<Tensor>& op, const DeviceContext& context);
void launch_gated_backward(const op::GatedBackward<Tensor>& op, const DeviceContext& context);

}  // namespace litespark::cuda
