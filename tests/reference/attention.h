// SPDX-License-Identifier: Apache-2.0
// Plain loops for attention: every score of a document at once, no tiles, no online softmax.
#pragma once

#include <vector>

#include "core/op/all.h"
#include "core/tensor.h"
#include "support/values.h"

namespace litespark::reference {

/// Outputs of the op by name. Real = double is the truth, Real = float the plain same-precision implementation.
/// Defined for both. The backward takes probabilities from the op's own log_sum_exp and out, as the kernel does.
template <class Real>
test::Values evaluate(const op::AttentionForward<Tensor>& op, const test::Values& in);
template <class Real>
test::Values evaluate(const op::AttentionBackward<Tensor>& op, const test::Values& in);
template <class Real>
test::Values evaluate(const op::AttentionPartForward<Tensor>& op, const test::Values& in);
template <class Real>
test::Values evaluate(const op::AttentionPartBackward<Tensor>& op, const test::Values& in);
template <class Real>
test::Values evaluate(const op::AttentionCached<Tensor>& op, const test::Values& in);

/// Of the rows of one of `ranks` context ranks, in its order, the places in a micro-batch of `num_tokens`.
std::vector<size_t> context_rows(int ranks, int rank, size_t num_tokens);

}  // namespace litespark::reference
