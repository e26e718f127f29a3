// SPDX-License-Identifier: Apache-2.0
// RMSNorm backward on the GPU: row counts off the 64-token blocks, every kernel shape, with and without what is
// optional.
#include "ops/cuda/cuda_conformance.h"
#include "ops/rms_norm_cases.h"
#include "reference/rms_norm.h"

namespace litespark::test {
namespace {

TEST(RmsNormBackward, KeepsTheErrorRuleAtEveryShape) {
  struct Size {
    int64_t rows, columns;
  };
  for (const DTypePair dtypes : kDTypePairs) {
    for (const Size size : {Size{200, 1}, Size{150, 8}, Size{1, 3072}, Size{63, 768}, Size{65, 768}, Size{130, 1024},
                            Size{67, 1032}, Size{129, 2048}, Size{67, 3072}, Size{66, 4096}, Size{65, 4104},
                            Size{3, 8192}, Size{65, 8200}, Size{130, 33}, Size{2100, 72}}) {
      for (const bool first : {false, true}) {
        const auto test =
            norm_backward_case({size.rows, size.columns, dtypes.residual, dtypes.compute, false, !first}, first);
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
