// SPDX-License-Identifier: Apache-2.0
// Reductions over ranks in rank order: the same bits whatever arrives first.
#pragma once

#include <cstdint>
#include <span>

#include "dist/communicator.h"

namespace litespark::dist {

/// out[i] = inputs[0][i] + inputs[1][i] + ..., added in that order (or the largest; NaN wins in both). f32 and f64 in
/// their own precision, bf16 in f32 and rounded once. `out` may be one of the inputs. Throws InternalError for other
/// dtypes.
void reduce_in_order(void* out, std::span<const void* const> inputs, int64_t num_elements, DType dtype,
                     Reduction reduction);

}  // namespace litespark::dist
