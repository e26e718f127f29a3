// SPDX-License-Identifier: Apache-2.0
// RMSNorm backward on the GPU: row counts off the 64-token blocks, every kernel shape, with and without what is
// optional.
#include <cmath>

#include "core/checked.h"
#include "ops/cuda/cuda_conformance.h"
#include "reference/rms_norm.h"

namespace litespark::test {
namespace {

OpCase<op::RmsNormBackward<Tensor>> backward_case(int64_t rows, int64_t columns, DTypePair dtypes, bool first) {
  const Shape shape{rows, columns};
  OpCase<op::RmsNormBackward<Tensor>> test{
      .name = case_name(rows, columns, dtypes) + (first ? " first" : ""),
      .op = {.dresidual = shape_only(dtypes.residual, shape),
             .dresidual_cast = dtypes.residual == dtypes.compute ? Tensor{} : shape_only(dtypes.compute, shape),
             .dweight = shape_only(DType::kF32, {columns}),
             .dy = shape_only(dtypes.compute, shape),
             .x = shape_only(dtypes.residual, shape),
             .rstd = shape_only(DType::kF32, {rows}),
             .weight = shape_only(DType::kF32, {columns}),
             .partials = shape_only(DType::kF32, {ceil_div(rows, op::kRmsNormRowsPerBlock), columns}),
             .first = first,
             .accumulate = !first},
      .inputs = {}};
  fill_at_random(test, 2);
  for (double& rstd : test.inputs.tensors["rstd"]) rstd = round_to(DType::kF32, 0.5 + std::abs(rstd));
  return test;
}

TEST(RmsNormBackward, KeepsTheErrorRuleAtEveryShape) {
  struct Size {
    int64_t rows, columns;
  };
  for (const DTypePair dtypes : kDTypePairs) {
    for (const Size size : {Size{200, 1}, Size{150, 8}, Size{1, 3072}, Size{63, 768}, Size{65, 768}, Size{130, 1024},
                            Size{67, 1032}, Size{129, 2048}, Size{67, 3072}, Size{66, 4096}, Size{65, 4104},
                            Size{3, 8192}, Size{65, 8200}, Size{130, 33}, Size{2100, 72}}) {
      for (const bool first : {false, true}) {
        const auto test = backward_case(size.rows, size.columns, dtypes, first);
        const Execution execution = execute_on_cuda(test);
        Values truth = reference::evaluate<double>(test.op, test.inputs);
        if (size.columns < 32) {
          // Too few sums for the statistics of the rule.
          for (size_t c = 0; c < truth.at("dweight").size(); ++c) {
            EXPECT_NEAR(execution.outputs.at("dweight")[c], truth.at("dweight")[c], 1e-4) << test.name;
          }
          truth.tensors.erase("dweight");
        }
        expect_kernel_rule(test.name, execution, truth, reference::evaluate<float>(test.op, test.inputs));
        if (test.op.dresidual_cast.has_value()) {
          EXPECT_EQ(execution.bytes.at("dresidual_cast"), encode(dtypes.compute, execution.outputs.at("dresidual")))
              << test.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace litespark::test
