// SPDX-License-Identifier: Apache-2.0
// The second half of every weight-gradient reduction: partial sums of fixed row blocks, added in block order.
#pragma once

#include <algorithm>

#include "ops/cpu/parallel.h"

namespace litespark::cpu {

struct ColumnSum {
  float* out = nullptr;             ///< [num_columns]
  const float* partials = nullptr;  ///< [num_rows, stride], the first num_columns of each row are summed
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  int64_t stride = 0;
  bool accumulate = false;  ///< add to `out` instead of overwriting it
};

/// out (+)= the rows' sum, from the first row to the last in every column.
inline void sum_columns(int threads, const ColumnSum& args) {
  constexpr int64_t kColumnsPerBlock = 256;
  parallel_ranges(threads, args.num_columns, kColumnsPerBlock, [&](int64_t begin, int64_t end) {
    float sums[kColumnsPerBlock] = {};
    for (int64_t row = 0; row < args.num_rows; ++row) {
      const float* source = args.partials + row * args.stride;
      for (int64_t c = begin; c < end; ++c) sums[c - begin] += source[c];
    }
    for (int64_t c = begin; c < end; ++c)
      args.out[c] = args.accumulate ? args.out[c] + sums[c - begin] : sums[c - begin];
  });
}

}  // namespace litespark::cpu
