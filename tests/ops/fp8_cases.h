// SPDX-License-Identifier: Apache-2.0
// Cases of the ops on 8-bit floats for the tests of every backend, and what they must give, computed here one element
// after another.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/fp8.h"
#include "reference/fp8.h"
#include "support/op_case.h"

namespace litespark::test {

struct Fp8Case {
  int64_t rows = 1, columns = 1;
  DType dtype = DType::kBF16;
  DType format = DType::kE4M3;
  bool by_row = false;
  bool has_copy = true;
  bool has_transposed = true;
  double spread = 1;  ///< magnitudes are e^(spread * normal)

  std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(columns) + " " + std::string(dtype_name(dtype)) + " to " +
           std::string(dtype_name(format)) + (by_row ? " by row" : "") + (has_copy ? " copy" : "") +
           (has_transposed ? " transposed" : "");
  }
};

/// Within, at and around tiles of 128, vectors of 8 and pieces of 16; one row, one column, odd sizes.
inline std::vector<Fp8Case> fp8_cases() {
  std::vector<Fp8Case> cases;
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 8}, {3, 7}, {16, 8}, {129, 33}, {128, 128}, {144, 136}, {272, 1032}, {300, 200}, {1, 4096}}) {
    for (const bool by_row : {false, true}) {
      cases.push_back({.rows = rows, .columns = columns, .by_row = by_row});
      cases.push_back({.rows = rows, .columns = columns, .by_row = by_row, .has_transposed = false, .spread = 4});
      cases.push_back({.rows = rows, .columns = columns, .format = DType::kE5M2, .by_row = by_row, .spread = 8});
      cases.push_back(
          {.rows = rows, .columns = columns, .dtype = DType::kF32, .by_row = by_row, .has_copy = false, .spread = 4});
    }
  }
  return cases;
}

inline std::vector<double> spread_values(const Fp8Case& c, uint64_t seed) {
  std::vector<double> values = random_normal(DType::kF32, c.rows * c.columns, seed, c.spread);
  const std::vector<double> signs = random_normal(DType::kF32, c.rows * c.columns, seed + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = round_to(c.dtype, signs[i] < -1.5 ? 0.0 : std::copysign(std::exp(values[i]), signs[i]));
  }
  return values;
}

/// The largest magnitudes of x: all of it, or of each row; and of each column.
struct Magnitudes {
  std::vector<double> rows, columns;
};

inline Magnitudes magnitudes_of(const Fp8Case& c, const std::vector<double>& x) {
  Magnitudes found{.rows = std::vector<double>(static_cast<size_t>(c.by_row ? c.rows : 1)),
                   .columns = std::vector<double>(static_cast<size_t>(c.columns))};
  for (size_t i = 0; i < x.size(); ++i) {
    double& row = found.rows[c.by_row ? i / static_cast<size_t>(c.columns) : 0];
    double& column = found.columns[i % static_cast<size_t>(c.columns)];
    row = std::max(row, std::abs(x[i]));
    column = std::max(column, std::abs(x[i]));
  }
  return found;
}

inline OpCase<op::AbsMax<Tensor>> abs_max_case(const Fp8Case& c) {
  OpCase<op::AbsMax<Tensor>> test{.name = c.name(),
                                  .op = {.abs_max = shape_only(DType::kF32, {c.by_row ? c.rows : 1}),
                                         .column_abs_max = c.by_row ? shape_only(DType::kF32, {c.columns}) : Tensor{},
                                         .x = shape_only(c.dtype, {c.rows, c.columns})},
                                  .inputs = {}};
  test.inputs.tensors["x"] = spread_values(c, 11);
  test.inputs.tensors["abs_max"].assign(static_cast<size_t>(test.op.abs_max.num_elements()), 0.0);
  if (c.by_row) test.inputs.tensors["column_abs_max"].assign(static_cast<size_t>(c.columns), 0.0);
  return test;
}

inline OpCase<op::QuantizeFp8<Tensor>> quantize_case(const Fp8Case& c) {
  const bool has_rows = c.has_copy || !c.by_row;
  const Tensor rows = has_rows ? shape_only(DType::kF32, {c.by_row ? c.rows : 1}) : Tensor{};
  const Tensor columns = c.by_row ? shape_only(DType::kF32, {c.columns}) : Tensor{};
  OpCase<op::QuantizeFp8<Tensor>> test{
      .name = c.name(),
      .op = {.q = c.has_copy ? shape_only(c.format, {c.rows, c.columns}) : Tensor{},
             .q_transposed = c.has_transposed ? shape_only(c.format, {c.columns, c.rows}) : Tensor{},
             .scale = rows,
             .column_scale = columns,
             .x = shape_only(c.dtype, {c.rows, c.columns}),
             .abs_max = rows,
             .column_abs_max = columns,
             .state = state_shape(),
             .kind = op::Fp8Kind::kGradient},
      .inputs = {}};
  test.inputs.tensors["x"] = spread_values(c, 12);
  const Magnitudes magnitudes = magnitudes_of(c, test.inputs.at("x"));
  if (has_rows) test.inputs.tensors["abs_max"] = magnitudes.rows;
  if (c.by_row) test.inputs.tensors["column_abs_max"] = magnitudes.columns;
  return test;
}

struct Quantized {
  std::vector<std::byte> copy, transposed;
  int64_t flushed = 0;
};

/// Code by code, by search: the value times its scale's factor, in f32 as the contract says, and the nearest code.
inline Quantized quantized(const Fp8Case& c, const OpCase<op::QuantizeFp8<Tensor>>& test) {
  const std::vector<double>& x = test.inputs.at("x");
  Quantized result{.copy = std::vector<std::byte>(x.size()), .transposed = std::vector<std::byte>(x.size())};
  const auto scaled = [&](const char* name, size_t index, double value) {
    const std::vector<double>& abs_max = test.inputs.at(name);
    const auto largest = static_cast<float>(abs_max[abs_max.size() > 1 ? index : 0]);
    return static_cast<float>(value) * fp8_scale(largest, c.format).quantise;
  };
  const auto columns = static_cast<size_t>(c.columns);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / columns, column = i % columns;
    const float by_row = c.has_copy || !c.by_row ? scaled("abs_max", row, x[i]) : 0.0f;
    const float by_column = c.by_row ? scaled("column_abs_max", column, x[i]) : by_row;
    const auto code = [&](float value) {
      return std::byte{reference::nearest_fp8(c.format, static_cast<double>(value))};
    };
    result.copy[i] = code(by_row);
    result.transposed[column * static_cast<size_t>(c.rows) + row] = code(by_column);
    const float counted = c.has_copy ? by_row : by_column;
    result.flushed += counted != 0 && fp8_to_float(c.format, static_cast<uint8_t>(code(counted))) == 0 ? 1 : 0;
  }
  return result;
}

/// Codes are exact, and so are the counts of what became 0.
inline void expect_quantized(const Fp8Case& c, const OpCase<op::QuantizeFp8<Tensor>>& test,
                             const Execution& execution) {
  const Quantized expected = quantized(c, test);
  if (c.has_copy) {
    EXPECT_EQ(execution.bytes.at("q"), expected.copy) << test.name;
  }
  if (c.has_transposed) {
    EXPECT_EQ(execution.bytes.at("q_transposed"), expected.transposed) << test.name;
  }
  EXPECT_EQ(execution.outputs.state.fp8_gradients, c.rows * c.columns) << test.name;
  EXPECT_EQ(execution.outputs.state.fp8_gradients_flushed, expected.flushed) << test.name;
  EXPECT_EQ(execution.outputs.state.fp8_inputs, 0) << test.name;
  EXPECT_EQ(execution.outputs.state.fp8_overflows, 0) << test.name;
  for (const auto& [scale, abs_max] : {std::pair{"scale", "abs_max"}, {"column_scale", "column_abs_max"}}) {
    if (!test.inputs.has(abs_max)) continue;
    const std::vector<double>& largest = test.inputs.at(abs_max);
    for (size_t i = 0; i < largest.size(); ++i) {
      EXPECT_EQ(execution.outputs.at(scale)[i],
                static_cast<double>(fp8_scale(static_cast<float>(largest[i]), c.format).dequantise))
          << test.name << " " << scale << " " << i;
    }
  }
}

struct ScaledCase {
  int64_t rows = 16, columns = 16, depth = 16;
  DType a = DType::kE4M3, b = DType::kE4M3;
  DType out = DType::kBF16;
  bool by_row = false;
  bool bias = false;
  bool accumulate = false;

  std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(depth) + " " +
           std::string(dtype_name(a)) + " " + std::string(dtype_name(b)) + " -> " + std::string(dtype_name(out)) +
           (by_row ? " by row" : "") + (bias ? " bias" : "") + (accumulate ? " accumulate" : "");
  }
};

inline std::vector<ScaledCase> scaled_cases() {
  std::vector<ScaledCase> cases;
  for (const auto& [rows, columns, depth] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {16, 16, 16}, {1, 32, 48}, {35, 64, 272}, {128, 80, 1040}, {272, 336, 64}}) {
    for (const bool flag : {false, true}) {
      cases.push_back({rows, columns, depth, DType::kE4M3, DType::kE4M3, DType::kBF16, false, flag, false});
      cases.push_back({rows, columns, depth, DType::kE4M3, DType::kE4M3, DType::kF32, false, false, flag});
    }
    cases.push_back({rows, columns, depth, DType::kE5M2, DType::kE4M3});
    cases.push_back({rows, columns, depth, DType::kE5M2, DType::kE4M3, DType::kF32});
    if (rows > 1) cases.push_back({rows, columns, depth, DType::kE4M3, DType::kE4M3, DType::kBF16, true});
    if (rows > 1) cases.push_back({rows, columns, depth, DType::kE4M3, DType::kE4M3, DType::kF32, true});
  }
  return cases;
}

/// `whole`: small whole numbers and powers of two as scales, of which every sum is exact.
inline OpCase<op::ScaledMatmul<Tensor>> scaled_case(const ScaledCase& c, bool whole, int64_t scratch_bytes = 0) {
  OpCase<op::ScaledMatmul<Tensor>> test{
      .name = c.name(),
      .op = {.out = shape_only(c.out, {c.rows, c.columns}),
             .a = shape_only(c.a, {c.rows, c.depth}),
             .b = shape_only(c.b, {c.columns, c.depth}),
             .a_scale = shape_only(DType::kF32, {c.by_row ? c.rows : 1}),
             .b_scale = shape_only(DType::kF32, {c.by_row ? c.columns : 1}),
             .bias = c.bias ? shape_only(DType::kF32, {c.columns}) : Tensor{},
             .scratch = scratch_bytes > 0 ? shape_only(DType::kU8, {scratch_bytes}) : Tensor{},
             .accumulate = c.accumulate},
      .inputs = {}};
  for (const char* scale : {"a_scale", "b_scale"}) {
    const Tensor& tensor = scale[0] == 'a' ? test.op.a_scale : test.op.b_scale;
    std::vector<double> powers = random_integers(tensor.num_elements(), 21, 4);
    for (double& power : powers) power = std::ldexp(1.0, static_cast<int>(power) - 3);
    test.inputs.tensors[scale] = powers;
  }
  if (whole) {
    for (const auto& [name, size] : {std::pair{"a", c.rows * c.depth},
                                     {"b", c.columns * c.depth},
                                     {"out", c.rows * c.columns},
                                     {"bias", c.columns}}) {
      std::vector<double> values = random_integers(size, 22 + name[0], 5);
      for (double& value : values) value -= 2;
      test.inputs.tensors[name] = values;
    }
  } else {
    fill_at_random(test, 23);
  }
  return test;
}

}  // namespace litespark::test
