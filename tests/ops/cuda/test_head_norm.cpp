// SPDX-License-Identifier: Apache-2.0
// Per-head RMSNorm on the GPU.
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "ops/cuda/cuda_conformance.h"
#include "reference/head_norm.h"

namespace litespark::test {
namespace {

struct Case {
  int64_t tokens;
  int heads, kv_heads, dim;
  DType dtype;
  bool accumulate;
};
const Case kCases[] = {
    {1, 1, 1, 2, DType::kF32, false},     {3, 4, 2, 6, DType::kF32, true},      {65, 2, 1, 16, DType::kBF16, true},
    {70, 3, 3, 33, DType::kF32, false},   {129, 4, 2, 64, DType::kBF16, false}, {67, 8, 2, 128, DType::kBF16, true},
    {130, 2, 1, 256, DType::kF32, false}, {66, 9, 3, 96, DType::kBF16, false},  {3, 2, 2, 512, DType::kBF16, true}};

std::string name_of(const Case& c) {
  return std::to_string(c.tokens) + " tokens, " + std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) +
         " heads of " + std::to_string(c.dim);
}

OpCase<op::HeadNormForward<Tensor>> forward_case(const Case& c) {
  const Shape shape{c.tokens, (c.heads + 2 * c.kv_heads) * c.dim};
  OpCase<op::HeadNormForward<Tensor>> test{.name = name_of(c),
                                           .op = {.out = shape_only(c.dtype, shape),
                                                  .rstd = shape_only(DType::kF32, {c.tokens, c.heads + c.kv_heads}),
                                                  .qkv = shape_only(c.dtype, shape),
                                                  .q_weight = shape_only(DType::kF32, {c.dim}),
                                                  .k_weight = shape_only(DType::kF32, {c.dim}),
                                                  .num_heads = c.heads,
                                                  .num_kv_heads = c.kv_heads,
                                                  .head_dim = c.dim},
                                           .inputs = {}};
  fill_at_random(test, 22);
  return test;
}

OpCase<op::HeadNormBackward<Tensor>> backward_case(const Case& c) {
  const Shape shape{c.tokens, (c.heads + 2 * c.kv_heads) * c.dim};
  const Tensor weight = shape_only(DType::kF32, {c.dim});
  OpCase<op::HeadNormBackward<Tensor>> test{
      .name = name_of(c),
      .op = {.dqkv = shape_only(c.dtype, shape),
             .dq_weight = weight,
             .dk_weight = weight,
             .qkv = shape_only(c.dtype, shape),
             .rstd = shape_only(DType::kF32, {c.tokens, c.heads + c.kv_heads}),
             .q_weight = weight,
             .k_weight = weight,
             .partials = shape_only(DType::kF32, {ceil_div(c.tokens, op::kRmsNormRowsPerBlock), 2 * c.dim}),
             .num_heads = c.heads,
             .num_kv_heads = c.kv_heads,
             .head_dim = c.dim,
             .accumulate = c.accumulate},
      .inputs = {}};
  fill_at_random(test, 23);
  for (double& rstd : test.inputs.tensors["rstd"]) rstd = round_to(DType::kF32, 0.5 + std::abs(rstd));
  return test;
}

TEST(HeadNorm, BothWaysKeepTheErrorRule) {
  for (const Case& c : kCases) {
    const auto forward = forward_case(c);
    expect_kernel_rule("forward " + forward.name, execute_on_cuda(forward),
                       reference::evaluate<double>(forward.op, forward.inputs),
                       reference::evaluate<float>(forward.op, forward.inputs));
    const auto backward = backward_case(c);
    expect_kernel_rule("backward " + backward.name, execute_on_cuda(backward),
                       reference::evaluate<double>(backward.op, backward.inputs),
                       reference::evaluate<float>(backward.op, backward.inputs));
  }
}

TEST(HeadNorm, RefusesHeadsWiderThanATeam) {
  EXPECT_THROW(execute(cuda_backend(), forward_case({1, 1, 1, 520, DType::kBF16, false})), InternalError);
}

}  // namespace
}  // namespace litespark::test
