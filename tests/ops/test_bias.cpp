// SPDX-License-Identifier: Apache-2.0
// The bias gradient against its reference.
#include "ops/bias_cases.h"
#include "ops/cpu_conformance.h"
#include "reference/bias.h"

namespace litespark::test {
namespace {

TEST(Bias, GradientKeepsTheErrorRule) {
  for (const BiasCase& c : kBiasCases) {
    const auto test = bias_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

}  // namespace
}  // namespace litespark::test
