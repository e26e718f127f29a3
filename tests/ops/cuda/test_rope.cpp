// SPDX-License-Identifier: Apache-2.0
// RoPE on the GPU: head widths that fill a warp's lanes evenly and not, value heads untouched, there and back.
#include "ops/cuda/cuda_conformance.h"
#include "reference/rope.h"

namespace litespark::test {
namespace {

struct Case {
  int64_t tokens;
  int rotated, total, dim;
};
const Case kCases[] = {{1, 1, 1, 2},      {5, 3, 5, 6},   {37, 6, 9, 16}, {33, 12, 16, 64}, {9, 5, 7, 96},
                       {65, 32, 40, 128}, {7, 3, 4, 256}, {6, 2, 3, 70},  {3, 2, 3, 130}};

OpCase<op::Rope<Tensor>> rope_case(const Case& c, DType dtype, bool inverse) {
  constexpr int64_t kPositions = 300;
  OpCase<op::Rope<Tensor>> test{
      .name = std::to_string(c.tokens) + " tokens, " + std::to_string(c.rotated) + " heads of " + std::to_string(c.dim),
      .op = {.qkv = shape_only(dtype, {c.tokens, c.total * c.dim}),
             .table = shape_only(DType::kF32, {kPositions, c.dim}),
             .positions = shape_only(DType::kI32, {c.tokens}),
             .num_rotated_heads = c.rotated,
             .num_heads_total = c.total,
             .head_dim = c.dim,
             .inverse = inverse},
      .inputs = {}};
  test.inputs.tensors["table"] = reference::rope_table(kPositions, c.dim, 10000.0);
  for (double& value : test.inputs.tensors["table"]) value = round_to(DType::kF32, value);
  test.inputs.tensors["positions"] = random_integers(c.tokens, 24, kPositions);
  fill_at_random(test, 25);
  return test;
}

TEST(Rope, KeepsTheErrorRuleBothWays) {
  for (const Case& c : kCases) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const bool inverse : {false, true}) {
        const auto test = rope_case(c, dtype, inverse);
        expect_kernel_rule(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs),
                           reference::evaluate<float>(test.op, test.inputs));
      }
    }
  }
}

TEST(Rope, ValueHeadsKeepTheirBits) {
  for (const Case& c : kCases) {
    const auto test = rope_case(c, DType::kBF16, false);
    const Execution execution = execute_on_cuda(test);
    for (size_t i = 0; i < test.inputs.at("qkv").size(); ++i) {
      const auto column = static_cast<int64_t>(i) % (c.total * c.dim);
      if (column < c.rotated * c.dim) continue;
      ASSERT_EQ(execution.outputs.at("qkv")[i], test.inputs.at("qkv")[i]);
    }
  }
}

}  // namespace
}  // namespace litespark::test
