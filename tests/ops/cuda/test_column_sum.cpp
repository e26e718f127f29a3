// SPDX-License-Identifier: Apache-2.0
// The second half of the atomics-free reductions, through the op that shows it plainly: a bias gradient of many blocks.
#include "core/checked.h"
#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

// Small integers add up exactly in any order, so every part must be there exactly once.
TEST(ColumnSum, EveryPartIsAddedOnce) {
  for (const int64_t parts : {1, 31, 32, 33, 100, 257}) {
    const int64_t rows = parts * op::kBiasRowsPerBlock - 3;
    constexpr int64_t kColumns = 37;
    OpCase<op::BiasBackward<Tensor>> test{.name = std::to_string(parts) + " parts",
                                          .op = {.dbias = shape_only(DType::kF32, {kColumns}),
                                                 .dy = shape_only(DType::kF32, {rows, kColumns}),
                                                 .partials = shape_only(DType::kF32, {parts, kColumns}),
                                                 .accumulate = true},
                                          .inputs = {}};
    test.inputs.tensors["dy"] = random_integers(rows * kColumns, 3, 9);
    test.inputs.tensors["dbias"] = random_integers(kColumns, 4, 9);
    std::vector<double> expected = test.inputs.at("dbias");
    for (size_t i = 0; i < test.inputs.at("dy").size(); ++i) expected[i % kColumns] += test.inputs.at("dy")[i];
    EXPECT_EQ(execute_on_cuda(test).outputs.at("dbias"), expected) << test.name;
  }
}

}  // namespace
}  // namespace litespark::test
