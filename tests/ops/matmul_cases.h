// SPDX-License-Identifier: Apache-2.0
// Linear layers for the tests of the three products: shapes, dtypes, and weights packed by the backend itself.
#pragma once

#include <string>
#include <vector>

#include "ops/cpu_conformance.h"
#include "ops/linear_shapes.h"
#include "reference/matmul.h"

namespace litespark::test {

struct LinearCase {
  int64_t rows = 1, inputs = 1, outputs = 1;
  DType dtype = DType::kF32;
  bool packed = false, bias = false, accumulate = false;

  std::string name() const {
    return std::to_string(rows) + " rows, " + std::to_string(inputs) + " -> " + std::to_string(outputs) + " " +
           std::string(dtype_name(dtype)) + (packed ? " packed" : "") + (bias ? " bias" : "") +
           (accumulate ? " accumulate" : "");
  }
  LinearShape shape() const {
    return {.rows = rows,
            .in_features = inputs,
            .out_features = outputs,
            .compute = dtype,
            .has_bias = bias,
            .weights_packed = packed};
  }
};

/// Every shared size with plain and packed weights in both dtypes.
inline std::vector<LinearCase> linear_cases() {
  std::vector<LinearCase> cases;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool packed : {false, true}) {
      for (const auto& [rows, inputs, outputs] : kLinearSizes) {
        cases.push_back({.rows = rows, .inputs = inputs, .outputs = outputs, .dtype = dtype, .packed = packed});
        cases.push_back(cases.back());
        cases.back().bias = true;
        cases.back().accumulate = true;
      }
    }
  }
  return cases;
}

/// Bytes of a packed weight, as the values of a u8 tensor.
inline std::vector<double> pack(Backend& backend, const LinearCase& c, op::PackForm form,
                                const std::vector<double>& weight) {
  const OpCase<op::PackWeight<Tensor>> test{
      .name = c.name(),
      .op = {.packed = shape_only(DType::kU8, {backend.sizes().packed_bytes(c.shape(), form)}),
             .weight = shape_only(DType::kF32, {c.outputs, c.inputs}),
             .form = form,
             .compute_bf16 = c.dtype == DType::kBF16},
      .inputs = {.tensors = {{"weight", weight}}, .state = {}}};
  return execute(backend, test).outputs.at("packed");
}

/// f32 master weights; the op's own weight tensor holds them rounded.
inline std::vector<double> master_weight(const LinearCase& c, uint64_t seed) {
  return random_normal(DType::kF32, c.inputs * c.outputs, seed);
}

inline OpCase<op::MatmulForward<Tensor>> forward_case(Backend& backend, const LinearCase& c, uint64_t seed) {
  OpCase<op::MatmulForward<Tensor>> test{.name = c.name(),
                                         .op = {.y = shape_only(c.dtype, {c.rows, c.outputs}),
                                                .x = shape_only(c.dtype, {c.rows, c.inputs}),
                                                .weight = {},
                                                .packed = {},
                                                .bias = c.bias ? shape_only(DType::kF32, {c.outputs}) : Tensor{},
                                                .scratch = {},
                                                .in_features = c.inputs,
                                                .out_features = c.outputs},
                                         .inputs = {.tensors = {{"weight", master_weight(c, seed)}}, .state = {}}};
  if (c.packed) {
    const std::vector<double> packed = pack(backend, c, op::PackForm::kForward, test.inputs.at("weight"));
    test.op.packed = shape_only(DType::kU8, {static_cast<int64_t>(packed.size())});
    test.inputs.tensors["packed"] = packed;
  } else {
    test.op.weight = shape_only(c.dtype, {c.outputs, c.inputs});
  }
  fill_at_random(test, seed);
  return test;
}

inline OpCase<op::MatmulBackwardInput<Tensor>> backward_input_case(Backend& backend, const LinearCase& c,
                                                                   uint64_t seed) {
  OpCase<op::MatmulBackwardInput<Tensor>> test{
      .name = c.name(),
      .op = {.dx = shape_only(c.dtype, {c.rows, c.inputs}),
             .dy = shape_only(c.dtype, {c.rows, c.outputs}),
             .weight = {},
             .packed = {},
             .scratch = {},
             .in_features = c.inputs,
             .out_features = c.outputs,
             .accumulate = c.accumulate},
      .inputs = {.tensors = {{"weight", master_weight(c, seed)}}, .state = {}}};
  if (c.packed) {
    const std::vector<double> packed = pack(backend, c, op::PackForm::kBackward, test.inputs.at("weight"));
    test.op.packed = shape_only(DType::kU8, {static_cast<int64_t>(packed.size())});
    test.inputs.tensors["packed"] = packed;
  } else {
    test.op.weight = shape_only(c.dtype, {c.outputs, c.inputs});
  }
  fill_at_random(test, seed);
  return test;
}

inline OpCase<op::MatmulBackwardWeight<Tensor>> backward_weight_case(const LinearCase& c, uint64_t seed) {
  OpCase<op::MatmulBackwardWeight<Tensor>> test{.name = c.name(),
                                                .op = {.dweight = shape_only(DType::kF32, {c.outputs, c.inputs}),
                                                       .dy = shape_only(c.dtype, {c.rows, c.outputs}),
                                                       .x = shape_only(c.dtype, {c.rows, c.inputs}),
                                                       .scratch = {},
                                                       .accumulate = c.accumulate},
                                                .inputs = {}};
  fill_at_random(test, seed);
  return test;
}

}  // namespace litespark::test
