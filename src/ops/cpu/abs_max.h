// SPDX-License-Identifier: Apache-2.0
// The largest magnitude of a tensor, compared as bits: the same for every order, NaN above all.
#pragma once

#include "core/tensor.h"

namespace litespark::cpu {

/// abs_max[0] = max(abs_max[0], |x|), nothing when abs_max is absent.
void raise_abs_max(int threads, const Tensor& abs_max, const Tensor& x);

}  // namespace litespark::cpu
