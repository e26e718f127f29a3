// SPDX-License-Identifier: Apache-2.0
// Second half of every atomics-free weight gradient: the partial rows of a first kernel, added in order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

namespace litespark::cuda {

struct ColumnSum {
  std::string_view op;  ///< for error messages
  float* out = nullptr;
  const float* partials = nullptr;  ///< [parts, stride], columns of it are summed
  int64_t parts = 0;
  int64_t columns = 0;
  int64_t stride = 0;
  bool accumulate = false;  ///< add to `out` instead of overwriting it
};

/// out[c] (+)= sum over p of partials[p][c]; the order depends on `parts` alone.
void launch_column_sum(const ColumnSum& sum, cudaStream_t stream);

}  // namespace litespark::cuda
