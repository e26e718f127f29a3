// SPDX-License-Identifier: Apache-2.0
// Host helpers of the kernel launchers: grid arithmetic and the dtype pairs that the streaming ops come in.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/checked.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/tensor.h"

namespace litespark::cuda {

/// Blocks of a one-dimensional grid; throws InternalError past the hardware's limit.
inline unsigned grid_size(std::string_view op, int64_t blocks) {
  if (blocks < 0 || blocks > 0x7fffffff) throw InternalError(op, "too many thread blocks", blocks, "less than 2^31");
  return static_cast<unsigned>(blocks);
}

/// Typed pointer of an optional tensor; nullptr when it is absent.
template <class T>
T* pointer_or_null(const Tensor& tensor) {
  return tensor.has_value() ? tensor.as<T>() : nullptr;
}

/// Calls body(TypeTag<Residual>, TypeTag<Compute>) for f32/f32, f32/bf16 and bf16/bf16.
template <class Body>
void visit_residual_compute(std::string_view op, DType residual, DType compute, Body&& body) {
  if (residual == DType::kF32 && compute == DType::kF32) return body(TypeTag<float>{}, TypeTag<float>{});
  if (residual == DType::kF32 && compute == DType::kBF16) return body(TypeTag<float>{}, TypeTag<bf16>{});
  if (residual == DType::kBF16 && compute == DType::kBF16) return body(TypeTag<bf16>{}, TypeTag<bf16>{});
  throw InternalError(op, "residual and compute dtypes", dtype_name(residual), "f32/f32, f32/bf16 or bf16/bf16");
}

}  // namespace litespark::cuda
