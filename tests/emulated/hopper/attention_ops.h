// SPDX-License-Identifier: Apache-2.0
// Attention kernels, whole, on the CPU: an op of the tests runs as the CUDA backend would run it.
#pragma once

#include "core/op/attention.h"
#include "support/op_case.h"

namespace litespark::cuda {

/// Throws InternalError for a block that hangs.
test::Values run_portable(const test::OpCase<op::AttentionForward<Tensor>>& test);
test::Values run_portable(const test::OpCase<op::AttentionBackward<Tensor>>& test);
test::Values run_portable(const test::OpCase<op::AttentionPartForward<Tensor>>& test);
test::Values run_portable(const test::OpCase<op::AttentionPartBackward<Tensor>>& test);

/// The Hopper forward: bf16 heads of 64 and 128.
test::Values run_hopper(const test::OpCase<op::AttentionForward<Tensor>>& test);
test::Values run_hopper(const test::OpCase<op::AttentionPartForward<Tensor>>& test);

}  // namespace litespark::cuda
