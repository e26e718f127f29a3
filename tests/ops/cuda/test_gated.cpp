// SPDX-License-Identifier: Apache-2.0
// The products with SwiGLU inside, as the backend runs them: the error rule by whichever way it chose.
#include "ops/cuda/cuda_conformance.h"
#include "ops/gated_cases.h"
#include "reference/gated.h"

namespace litespark::test {
namespace {

TEST(Gated, BothWaysKeepTheErrorRule) {
  for (const GatedCase& c : {GatedCase{70, 32, 48, DType::kF32}, GatedCase{70, 30, 46, DType::kBF16},
                             GatedCase{300, 128, 264, DType::kBF16}}) {
    const auto forward = gated_forward_case(c);
    expect_kernel_rule("forward " + c.name(), execute_on_cuda(forward),
                       reference::evaluate<double>(forward.op, forward.inputs),
                       reference::evaluate<float>(forward.op, forward.inputs));
    const auto backward = gated_backward_case(c);
    expect_kernel_rule("backward " + c.name(), execute_on_cuda(backward),
                       reference::evaluate<double>(backward.op, backward.inputs),
                       reference::evaluate<float>(backward.op, backward.inputs));
  }
}

}  // namespace
}  // namespace litespark::test
