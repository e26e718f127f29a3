// SPDX-License-Identifier: Apache-2.0
// Plain loops for RoPE, and the table of angles.
#pragma once

#include "core/op/all.h"
#include "core/tensor.h"
#include "support/values.h"

namespace litespark::reference {

/// Outputs of the op by name. Real = double is the truth, Real = float the plain same-precision implementation.
/// Defined for both.
template <class Real>
test::Values evaluate(const op::Rope<Tensor>& op, const test::Values& in);

/// [num_positions, head_dim]: per position head_dim / 2 cosines, then as many sines, of position * theta^(-2 i / D).
std::vector<double> rope_table(int64_t num_positions, int head_dim, double theta);

}  // namespace litespark::reference
