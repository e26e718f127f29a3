// SPDX-License-Identifier: Apache-2.0
// Head norm cases for the tests of every backend.
#pragma once

#include <cmath>
#include <string>

#include "core/checked.h"
#include "support/op_case.h"

namespace litespark::test {

struct HeadNormCase {
  int64_t tokens = 1;
  int heads = 1, kv_heads = 1, dim = 2;
  DType dtype = DType::kF32;
  bool accumulate = false;

  std::string name() const {
    return std::to_string(tokens) + " tokens, " + std::to_string(heads) + "/" + std::to_string(kv_heads) +
           " heads of " + std::to_string(dim) + " " + std::string(dtype_name(dtype));
  }
  Shape shape() const { return {tokens, int64_t{heads + 2 * kv_heads} * dim}; }
};

/// Every team of lanes and both accesses a lane of the GPU, tokens on both sides of a block of 64, odd head counts.
inline const HeadNormCase kHeadNormCases[] = {{1, 1, 1, 2, DType::kF32, false},     {3, 4, 2, 6, DType::kF32, true},
                                              {65, 2, 1, 16, DType::kBF16, true},   {70, 3, 3, 33, DType::kF32, false},
                                              {129, 4, 2, 64, DType::kBF16, false}, {67, 8, 2, 128, DType::kBF16, true},
                                              {130, 2, 1, 256, DType::kF32, false}, {66, 9, 3, 96, DType::kBF16, false},
                                              {3, 2, 2, 512, DType::kBF16, true},   {0, 2, 1, 8, DType::kF32, false}};

inline OpCase<op::HeadNormForward<Tensor>> head_norm_forward_case(const HeadNormCase& c) {
  OpCase<op::HeadNormForward<Tensor>> test{.name = c.name(),
                                           .op = {.out = shape_only(c.dtype, c.shape()),
                                                  .rstd = shape_only(DType::kF32, {c.tokens, c.heads + c.kv_heads}),
                                                  .qkv = shape_only(c.dtype, c.shape()),
                                                  .q_weight = shape_only(DType::kF32, {c.dim}),
                                                  .k_weight = shape_only(DType::kF32, {c.dim}),
                                                  .num_heads = c.heads,
                                                  .num_kv_heads = c.kv_heads,
                                                  .head_dim = c.dim},
                                           .inputs = {}};
  fill_at_random(test, 3);
  return test;
}

inline OpCase<op::HeadNormBackward<Tensor>> head_norm_backward_case(const HeadNormCase& c) {
  const Tensor weight = shape_only(DType::kF32, {c.dim});
  OpCase<op::HeadNormBackward<Tensor>> test{
      .name = c.name(),
      .op = {.dqkv = shape_only(c.dtype, c.shape()),
             .dq_weight = weight,
             .dk_weight = weight,
             .qkv = shape_only(c.dtype, c.shape()),
             .rstd = shape_only(DType::kF32, {c.tokens, c.heads + c.kv_heads}),
             .q_weight = weight,
             .k_weight = weight,
             .partials = shape_only(DType::kF32, {ceil_div(c.tokens, op::kRmsNormRowsPerBlock), 2 * c.dim}),
             .num_heads = c.heads,
             .num_kv_heads = c.kv_heads,
             .head_dim = c.dim,
             .accumulate = c.accumulate},
      .inputs = {}};
  fill_at_random(test, 4);
  for (double& rstd : test.inputs.tensors["rstd"]) rstd = round_to(DType::kF32, 0.5 + std::abs(rstd));
  return test;
}

}  // namespace litespark::test
