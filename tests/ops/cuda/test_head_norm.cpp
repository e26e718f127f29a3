// SPDX-License-Identifier: Apache-2.0
// Per-head RMSNorm on the GPU.
#include "core/error.h"
#include "ops/cuda/cuda_conformance.h"
#include "ops/head_norm_cases.h"
#include "reference/head_norm.h"

namespace litespark::test {
namespace {

TEST(HeadNorm, BothWaysKeepTheErrorRule) {
  for (const HeadNormCase& c : kHeadNormCases) {
    const auto forward = head_norm_forward_case(c);
    expect_kernel_rule("forward " + forward.name, execute_on_cuda(forward),
                       reference::evaluate<double>(forward.op, forward.inputs),
                       reference::evaluate<float>(forward.op, forward.inputs));
    const auto backward = head_norm_backward_case(c);
    expect_kernel_rule("backward " + backward.name, execute_on_cuda(backward),
                       reference::evaluate<double>(backward.op, backward.inputs),
                       reference::evaluate<float>(backward.op, backward.inputs));
  }
}

TEST(HeadNorm, RefusesHeadsWiderThanATeam) {
  EXPECT_THROW(execute(cuda_backend(), head_norm_forward_case({1, 1, 1, 520, DType::kBF16, false})), InternalError);
}

}  // namespace
}  // namespace litespark::test
