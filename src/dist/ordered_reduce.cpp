// SPDX-License-Identifier: Apache-2.0
#include "dist/ordered_reduce.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace litespark::dist {
namespace {

/// A stretch of sums that stays in the first cache while the inputs pass by.
constexpr int64_t kBlock = 2048;

float widened(float value) {
  return value;
}
float widened(bf16 value) {
  return to_float(value);
}
double widened(double value) {
  return value;
}
void narrow(float& out, float value) {
  out = value;
}
void narrow(bf16& out, float value) {
  out = to_bf16(value);
}
void narrow(double& out, double value) {
  out = value;
}

template <class Sum>
Sum larger(Sum a, Sum b) {
  // A comparison with NaN is false: `a` stays when it is NaN, and `b` is taken when it is.
  return a >= b || a != a ? a : b;
}

template <class T>
void reduce_blocks(T* out, std::span<const void* const> inputs, int64_t num_elements, Reduction reduction) {
  using Sum = decltype(widened(T{}));
  std::array<Sum, kBlock> sums;
  for (int64_t first = 0; first < num_elements; first += kBlock) {
    const auto count = static_cast<size_t>(std::min(kBlock, num_elements - first));
    const T* source = static_cast<const T*>(inputs[0]) + first;
    for (size_t i = 0; i < count; ++i) sums[i] = widened(source[i]);
    for (const void* input : inputs.subspan(1)) {
      source = static_cast<const T*>(input) + first;
      if (reduction == Reduction::kSum) {
        for (size_t i = 0; i < count; ++i) sums[i] += widened(source[i]);
      } else {
        for (size_t i = 0; i < count; ++i) sums[i] = larger(sums[i], widened(source[i]));
      }
    }
    for (size_t i = 0; i < count; ++i) narrow(out[static_cast<size_t>(first) + i], sums[i]);
  }
}

}  // namespace

void reduce_in_order(void* out, std::span<const void* const> inputs, int64_t num_elements, DType dtype,
                     Reduction reduction) {
  switch (dtype) {
    case DType::kF32: return reduce_blocks(static_cast<float*>(out), inputs, num_elements, reduction);
    case DType::kBF16: return reduce_blocks(static_cast<bf16*>(out), inputs, num_elements, reduction);
    case DType::kF64: return reduce_blocks(static_cast<double*>(out), inputs, num_elements, reduction);
    default: throw InternalError("ordered reduce", "dtype cannot be reduced", dtype_name(dtype), "f32, bf16 or f64");
  }
}

}  // namespace litespark::dist
