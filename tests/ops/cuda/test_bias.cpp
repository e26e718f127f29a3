// SPDX-License-Identifier: Apache-2.0
// Bias gradients on the GPU: rows off the blocks of 256, widths off the vectors.
#include "ops/bias_cases.h"
#include "ops/cuda/cuda_conformance.h"
#include "reference/bias.h"

namespace litespark::test {
namespace {

TEST(Bias, GradientKeepsTheErrorRule) {
  for (const BiasCase& c : kBiasCases) {
    const auto test = bias_case(c);
    expect_kernel_rule(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs),
                       reference::evaluate<float>(test.op, test.inputs));
  }
}

}  // namespace
}  // namespace litespark::test
