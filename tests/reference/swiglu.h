// SPDX-License-Identifier: Apache-2.0
// Plain loops for SwiGLU and its gradient.
#pragma once

#include "core/op/all.h"
#include "core/tensor.h"
#include "support/values.h"

namespace litespark::reference {

/// Outputs of the op by name, from its inputs and the shapes of `op`. Real = double is the truth, Real = float the
/// plain same-precision implementation that kernels are measured against. Defined for both.
template <class Real>
test::Values evaluate(const op::SwiGluForward<Tensor>& op, const test::Values& in);
template <class Real>
test::Values evaluate(const op::SwiGluBackward<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
