// SPDX-License-Identifier: Apache-2.0
// RMSNorm forward on the GPU: every team size, the edges of the held-row kernel, odd widths.
#include "ops/cuda/cuda_conformance.h"
#include "ops/rms_norm_cases.h"
#include "reference/rms_norm.h"

namespace litespark::test {
namespace {

void expect_forward_rule(const NormCase& c) {
  const auto test = norm_forward_case(c);
  const Execution execution = execute_on_cuda(test);
  const Values truth = reference::evaluate<double>(test.op, test.inputs);
  expect_kernel_rule(test.name, execution, truth, reference::evaluate<float>(test.op, test.inputs));
  if (c.has_delta) {
    EXPECT_EQ(execution.outputs.at("sum"), truth.at("sum")) << test.name;
  }
}

TEST(RmsNorm, ForwardKeepsTheErrorRuleAtEveryWidth) {
  for (const NormCase& c : kNormCases) expect_forward_rule(c);
  for (const DTypePair dtypes : kDTypePairs) {
    for (const int64_t columns : {8, 256, 1024, 1032, 2048, 3072, 3073, 4096, 8192, 16384, 16392}) {
      for (const bool has_delta : {false, true}) {
        expect_forward_rule({columns > 2048 ? 5 : 131, columns, dtypes.residual, dtypes.compute, has_delta});
      }
    }
  }
}

TEST(RmsNorm, SumMayBeWrittenOverX) {
  for (const int64_t columns : {50, 768, 3072}) {
    auto test = norm_forward_case({33, columns, DType::kF32, DType::kBF16, true});
    const Execution apart = execute_on_cuda(test);
    test.aliases = {{"sum", "x"}};
    const Execution in_place = execute_on_cuda(test);
    EXPECT_EQ(in_place.bytes.at("sum"), apart.bytes.at("sum"));
    EXPECT_EQ(in_place.bytes.at("y"), apart.bytes.at("y"));
  }
}

}  // namespace
}  // namespace litespark::test
