// SPDX-License-Identifier: Apache-2.0
// Plain loops for the products with SwiGLU inside: those of the two ops that each stands for.
#pragma once

#include "core/op/all.h"
#include "core/tensor.h"
#include "support/values.h"

namespace litespark::reference {

/// As for the other ops; Real = float rounds what is between the two halves to the op's dtype, as an op by itself
/// would.
template <class Real>
test::Values evaluate(const op::GatedForward<Tensor>& op, const test::Values& in);
template <class Real>
test::Values evaluate(const op::GatedBackward<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
