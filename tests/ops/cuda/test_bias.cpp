// SPDX-License-Identifier: Apache-2.0
// Bias gradients on the GPU: rows off the blocks of 256, widths off the vectors.
#include "core/checked.h"
#include "ops/cuda/cuda_conformance.h"
#include "reference/bias.h"

namespace litespark::test {
namespace {

TEST(Bias, GradientKeepsTheErrorRule) {
  struct Case {
    int64_t rows, columns;
    bool accumulate;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Case c : {Case{1, 1, false}, Case{3, 7, true}, Case{256, 16, false}, Case{257, 33, true},
                         Case{1000, 2304, false}, Case{700, 515, true}, Case{0, 5, false}}) {
      OpCase<op::BiasBackward<Tensor>> test{
          .name = std::to_string(c.rows) + "x" + std::to_string(c.columns),
          .op = {.dbias = shape_only(DType::kF32, {c.columns}),
                 .dy = shape_only(dtype, {c.rows, c.columns}),
                 .partials = shape_only(DType::kF32, {ceil_div(c.rows, op::kBiasRowsPerBlock), c.columns}),
                 .accumulate = c.accumulate},
          .inputs = {}};
      fill_at_random(test, 5);
      expect_kernel_rule(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs),
                         reference::evaluate<float>(test.op, test.inputs));
    }
  }
}

}  // namespace
}  // namespace litespark::test
