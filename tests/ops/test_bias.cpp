// SPDX-License-Identifier: Apache-2.0
// The bias gradient against its reference.
#include "core/checked.h"
#include "ops/cpu_conformance.h"
#include "reference/bias.h"

namespace litespark::test {
namespace {

struct Case {
  int64_t rows, columns;
  DType dtype;
  bool accumulate;
};

const Case kCases[] = {{1, 1, DType::kF32, false},   {3, 7, DType::kF32, true},       {256, 16, DType::kBF16, false},
                       {257, 33, DType::kF32, true}, {1000, 300, DType::kF32, false}, {700, 515, DType::kBF16, true},
                       {0, 5, DType::kF32, false}};

TEST(Bias, GradientKeepsTheErrorRule) {
  for (const Case& c : kCases) {
    OpCase<op::BiasBackward<Tensor>> test{
        .name = std::to_string(c.rows) + "x" + std::to_string(c.columns),
        .op = {.dbias = shape_only(DType::kF32, {c.columns}),
               .dy = shape_only(c.dtype, {c.rows, c.columns}),
               .partials = shape_only(DType::kF32, {ceil_div(c.rows, op::kBiasRowsPerBlock), c.columns}),
               .accumulate = c.accumulate},
        .inputs = {}};
    fill_at_random(test, 8);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

}  // namespace
}  // namespace litespark::test
