// SPDX-License-Identifier: Apache-2.0
// Linear layers for the GPU tests of the three products.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "ops/cuda/cuda_conformance.h"
#include "ops/linear_shapes.h"

namespace litespark::test {

struct GpuLinearCase {
  int64_t rows = 1, inputs = 1, outputs = 1;
  DType dtype = DType::kBF16;
  bool bias = false;
  bool accumulate = false;

  std::string name() const {
    return std::to_string(rows) + " rows, " + std::to_string(inputs) + " -> " + std::to_string(outputs) + " " +
           std::string(dtype_name(dtype)) + (bias ? " bias" : "") + (accumulate ? " accumulate" : "");
  }
};

/// Sizes of which tensor cores take whole tiles.
inline constexpr LinearSize kTiledSizes[] = {{300, 32, 64}, {128, 768, 256}, {64, 2048, 72}};

/// Every shared size and the tiled ones in both dtypes, with and without bias and accumulation.
inline std::vector<GpuLinearCase> gpu_linear_cases() {
  std::vector<LinearSize> sizes(std::begin(kLinearSizes), std::end(kLinearSizes));
  sizes.insert(sizes.end(), std::begin(kTiledSizes), std::end(kTiledSizes));
  std::vector<GpuLinearCase> cases;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, inputs, outputs] : sizes) {
      for (const bool flag : {false, true}) cases.push_back({rows, inputs, outputs, dtype, flag, flag});
    }
  }
  return cases;
}

/// Less than a run's 32 MiB, which every case would read back, and room for a bias.
inline Tensor small_scratch(const GpuLinearCase& c) {
  return shape_only(DType::kU8, {(1 << 16) + 256 + 2 * c.outputs});
}

inline OpCase<op::MatmulForward<Tensor>> matmul_forward_case(const GpuLinearCase& c) {
  OpCase<op::MatmulForward<Tensor>> test{.name = "forward " + c.name(),
                                         .op = {.y = shape_only(c.dtype, {c.rows, c.outputs}),
                                                .x = shape_only(c.dtype, {c.rows, c.inputs}),
                                                .weight = shape_only(c.dtype, {c.outputs, c.inputs}),
                                                .bias = c.bias ? shape_only(DType::kF32, {c.outputs}) : Tensor{},
                                                .scratch = small_scratch(c),
                                                .in_features = c.inputs,
                                                .out_features = c.outputs},
                                         .inputs = {}};
  fill_at_random(test, 1);
  return test;
}

inline OpCase<op::MatmulBackwardInput<Tensor>> matmul_input_case(const GpuLinearCase& c) {
  OpCase<op::MatmulBackwardInput<Tensor>> test{.name = "backward input " + c.name(),
                                               .op = {.dx = shape_only(c.dtype, {c.rows, c.inputs}),
                                                      .dy = shape_only(c.dtype, {c.rows, c.outputs}),
                                                      .weight = shape_only(c.dtype, {c.outputs, c.inputs}),
                                                      .scratch = small_scratch(c),
                                                      .in_features = c.inputs,
                                                      .out_features = c.outputs,
                                                      .accumulate = c.accumulate},
                                               .inputs = {}};
  fill_at_random(test, 2);
  return test;
}

inline OpCase<op::MatmulBackwardWeight<Tensor>> matmul_weight_case(const GpuLinearCase& c) {
  OpCase<op::MatmulBackwardWeight<Tensor>> test{.name = "backward weight " + c.name(),
                                                .op = {.dweight = shape_only(DType::kF32, {c.outputs, c.inputs}),
                                                       .dy = shape_only(c.dtype, {c.rows, c.outputs}),
                                                       .x = shape_only(c.dtype, {c.rows, c.inputs}),
                                                       .scratch = small_scratch(c),
                                                       .accumulate = c.accumulate},
                                                .inputs = {}};
  fill_at_random(test, 3);
  return test;
}

}  // namespace litespark::test
