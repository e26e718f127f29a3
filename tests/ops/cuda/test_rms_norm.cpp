// SPDX-License-Identifier: Apache-2.0
// RMSNorm forward on the GPU: every team size, the edges of the held-row kernel, odd widths.
#include "ops/cuda/cuda_conformance.h"
#include "reference/rms_norm.h"

namespace litespark::test {
namespace {

OpCase<op::RmsNormForward<Tensor>> forward_case(int64_t rows, int64_t columns, DTypePair dtypes, bool has_delta) {
  const Shape shape{rows, columns};
  OpCase<op::RmsNormForward<Tensor>> test{.name = case_name(rows, columns, dtypes) + (has_delta ? " with delta" : ""),
                                          .op = {.y = shape_only(dtypes.compute, shape),
                                                 .rstd = shape_only(DType::kF32, {rows}),
                                                 .sum = has_delta ? shape_only(dtypes.residual, shape) : Tensor{},
                                                 .x = shape_only(dtypes.residual, shape),
                                                 .delta = has_delta ? shape_only(dtypes.compute, shape) : Tensor{},
                                                 .weight = shape_only(DType::kF32, {columns})},
                                          .inputs = {}};
  fill_at_random(test, 1);
  return test;
}

TEST(RmsNorm, ForwardKeepsTheErrorRuleAtEveryWidth) {
  for (const DTypePair dtypes : kDTypePairs) {
    for (const int64_t columns : {1, 7, 8, 64, 255, 256, 768, 1024, 1032, 2048, 3072, 3073, 4096, 8192, 16384, 16392}) {
      for (const bool has_delta : {false, true}) {
        const auto test = forward_case(columns > 2048 ? 5 : 131, columns, dtypes, has_delta);
        const Execution execution = execute_on_cuda(test);
        const Values truth = reference::evaluate<double>(test.op, test.inputs);
        expect_kernel_rule(test.name, execution, truth, reference::evaluate<float>(test.op, test.inputs));
        if (has_delta) {
          EXPECT_EQ(execution.outputs.at("sum"), truth.at("sum")) << test.name;
        }
      }
    }
  }
}

TEST(RmsNorm, SumMayBeWrittenOverX) {
  for (const int64_t columns : {50, 768, 3072}) {
    auto test = forward_case(33, columns, {.residual = DType::kF32, .compute = DType::kBF16}, true);
    const Execution apart = execute_on_cuda(test);
    test.aliases = {{"sum", "x"}};
    const Execution in_place = execute_on_cuda(test);
    EXPECT_EQ(in_place.bytes.at("sum"), apart.bytes.at("sum"));
    EXPECT_EQ(in_place.bytes.at("y"), apart.bytes.at("y"));
  }
}

}  // namespace
}  // namespace litespark::test
