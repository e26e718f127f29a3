// SPDX-License-Identifier: Apache-2.0
// SwiGLU on the GPU: widths around the chunks of a row, gradients written over their inputs, gates far from zero.
#include "ops/cuda/cuda_conformance.h"
#include "reference/swiglu.h"

namespace litespark::test {
namespace {

struct Size {
  int64_t rows, columns;
};
const Size kSizes[] = {{1100, 1}, {300, 7},   {200, 8},  {67, 33},  {64, 688},
                       {9, 2048}, {33, 4096}, {3, 4104}, {5, 8192}, {2, 11008}};

OpCase<op::SwiGluForward<Tensor>> forward_case(Size size, DType dtype, double scale) {
  OpCase<op::SwiGluForward<Tensor>> test{.name = case_name(size.rows, size.columns, {dtype, dtype}),
                                         .op = {.h = shape_only(dtype, {size.rows, size.columns}),
                                                .gate_up = shape_only(dtype, {size.rows, 2 * size.columns})},
                                         .inputs = {}};
  test.inputs.tensors["gate_up"] = random_normal(dtype, size.rows * 2 * size.columns, 7, scale);
  return test;
}

OpCase<op::SwiGluBackward<Tensor>> backward_case(Size size, DType dtype, double scale) {
  OpCase<op::SwiGluBackward<Tensor>> test{.name = case_name(size.rows, size.columns, {dtype, dtype}),
                                          .op = {.dgate_up = shape_only(dtype, {size.rows, 2 * size.columns}),
                                                 .dh = shape_only(dtype, {size.rows, size.columns}),
                                                 .gate_up = shape_only(dtype, {size.rows, 2 * size.columns})},
                                          .inputs = {}};
  test.inputs.tensors["gate_up"] = random_normal(dtype, size.rows * 2 * size.columns, 7, scale);
  fill_at_random(test, 8);
  return test;
}

TEST(SwiGlu, BothWaysKeepTheErrorRule) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Size size : kSizes) {
      for (const double scale : {1.0, 30.0}) {
        const auto forward = forward_case(size, dtype, scale);
        expect_kernel_rule("forward " + forward.name, execute_on_cuda(forward),
                           reference::evaluate<double>(forward.op, forward.inputs),
                           reference::evaluate<float>(forward.op, forward.inputs));
        const auto backward = backward_case(size, dtype, scale);
        expect_kernel_rule("backward " + backward.name, execute_on_cuda(backward),
                           reference::evaluate<double>(backward.op, backward.inputs),
                           reference::evaluate<float>(backward.op, backward.inputs));
      }
    }
  }
}

TEST(SwiGlu, GradientMayBeWrittenOverItsInput) {
  for (const Size size : {Size{67, 33}, Size{33, 4096}}) {
    auto test = backward_case(size, DType::kBF16, 2);
    const Execution apart = execute_on_cuda(test);
    test.aliases = {{"dgate_up", "gate_up"}};
    EXPECT_EQ(execute_on_cuda(test).bytes.at("dgate_up"), apart.bytes.at("dgate_up")) << test.name;
  }
}

// report:B26: exp overflows at both ends; silu(-1e4) is 0 and silu(1e4) is 1e4.
TEST(SwiGlu, ExtremeGatesGiveNoNan) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    auto test = forward_case({1, 8}, dtype, 1);
    test.inputs.tensors["gate_up"] = {1e4, -1e4, 1e4, -1e4, 100, -100, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    const std::vector<double> h = execute_on_cuda(test).outputs.at("h");
    EXPECT_EQ(h[0], round_to(dtype, 1e4));
    EXPECT_EQ(h[1], 0.0);
    EXPECT_EQ(h[4], 100.0);
    EXPECT_EQ(h[6], 0.0);
  }
}

}  // namespace
}  // namespace litespark::test
