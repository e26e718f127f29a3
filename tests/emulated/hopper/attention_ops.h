// SPDX-License-Identifier: Apache-2.0
// Attention kernels, whole, on the CPU: an op of the tests runs as the CUDA backend would run it.
#pragma once

#include <vector>

#include "core/op/attention.h"
#include "core/op/attention_fp8.h"
#include "ops/attention_cases.h"
#include "support/op_case.h"

namespace litespark::cuda {

/// Throws InternalError for a block that hangs.
test::Values run_portable(const test::OpCase<op::AttentionForward<Tensor>>& test);
test::Values run_portable(const test::OpCase<op::AttentionBackward<Tensor>>& test);
test::Values run_portable(const test::OpCase<op::AttentionPartForward<Tensor>>& test);
test::Values run_portable(const test::OpCase<op::AttentionPartBackward<Tensor>>& test);

/// The Hopper kernels: bf16 heads of 64, 96 and 128, and forward of 256. `ordered`: dQ is summed in a fixed order.
test::Values run_hopper(const test::OpCase<op::AttentionForward<Tensor>>& test);
test::Values run_hopper(const test::OpCase<op::AttentionPartForward<Tensor>>& test);
/// On 8-bit floats: heads of 128.
test::Values run_hopper(const test::OpCase<op::AttentionForwardFp8<Tensor>>& test);
test::Values run_hopper(const test::OpCase<op::AttentionBackward<Tensor>>& test, bool ordered = true);
/// Of equal documents, with the statistics [B, H, T] where cuDNN would have them.
test::Values run_hopper_by_document(const test::OpCase<op::AttentionForwardFp8<Tensor>>& test);
test::Values run_hopper_by_document(const test::OpCase<op::AttentionBackward<Tensor>>& test);
test::Values run_hopper(const test::OpCase<op::AttentionPartBackward<Tensor>>& test, bool ordered = true);

/// Zeros in the columns of heads that are off, of keys and values too where the matrix [rows, columns] has them. The
/// kernels leave them alone, as their caller clears them: NaN is expected there.
void clear_off_heads(const test::AttentionCase& c, int64_t columns, std::vector<double>& matrix);

}  // namespace litespark::cuda
