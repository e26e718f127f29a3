// SPDX-License-Identifier: Apache-2.0
// Plain loops for the three products of a linear layer.
#pragma once

#include "core/op/all.h"
#include "core/tensor.h"
#include "support/values.h"

namespace litespark::reference {

/// Outputs of the op by name, from its inputs and the shapes of `op`. Real = double is the truth, Real = float the
/// plain same-precision implementation that kernels are measured against. Defined for both. "weight" is read from `in`
/// and rounded to the compute dtype also where the op itself reads a packed copy.
template <class Real>
test::Values evaluate(const op::MatmulForward<Tensor>& op, const test::Values& in);
template <class Real>
test::Values evaluate(const op::MatmulBackwardInput<Tensor>& op, const test::Values& in);
template <class Real>
test::Values evaluate(const op::MatmulBackwardWeight<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
