// SPDX-License-Identifier: Apache-2.0
#include "reference/attention_fp8.h"

#include <cmath>

#include "core/fp8.h"
#include "reference/attention.h"
#include "reference/fp8.h"

namespace litespark::reference {
namespace {

/// Rows of a group in the order of their columns.
constexpr size_t kOrder[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};

size_t column_of(size_t row) {
  size_t column = 0;
  while (kOrder[column] != row % 16) ++column;
  return row / 16 * 16 + column;
}

}  // namespace

QuantizedQkv quantized_qkv(const op::QuantizeQkv<Tensor>& op, const test::Values& in) {
  const std::vector<double>& qkv = in.at("qkv");
  const auto columns = static_cast<size_t>(op.qkv.columns());
  const auto features = static_cast<size_t>(op.queries_keys.columns());
  const size_t rows = qkv.size() / columns;
  const auto largest = static_cast<float>(in.at("abs_max")[0]);
  const Fp8Scale scale = fp8_scale(largest, DType::kE4M3);
  QuantizedQkv result{.queries_keys = std::vector<std::byte>(rows * features),
                      .values = std::vector<std::byte>(static_cast<size_t>(op.values.num_elements())),
                      .scale = static_cast<double>(scale.dequantise)};
  const size_t value_columns = (rows + 15) / 16 * 16;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      const float scaled = static_cast<float>(qkv[row * columns + column]) * scale.quantise;
      const uint8_t code = nearest_fp8(DType::kE4M3, static_cast<double>(scaled));
      result.flushed += scaled != 0 && (code & 0x7f) == 0 ? 1 : 0;
      (column < features ? result.queries_keys[row * features + column]
                         : result.values[(column - features) * value_columns + column_of(row)]) = std::byte{code};
    }
  }
  return result;
}

template <class Real>
test::Values evaluate(const op::AttentionForwardFp8<Tensor>& op, const test::Values& in, bool magnitudes) {
  const double scale = in.at("scale")[0];
  const std::vector<double>& queries_keys = in.at("queries_keys");
  const std::vector<double>& values = in.at("values");
  const auto rows = static_cast<size_t>(op.out.rows());
  const auto features = static_cast<size_t>(op.queries_keys.columns());
  const auto value_features = static_cast<size_t>(op.values.rows());
  const auto value_columns = static_cast<size_t>(op.values.columns());
  std::vector<double> qkv;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < features; ++i) qkv.push_back(scale * queries_keys[row * features + i]);
    for (size_t i = 0; i < value_features; ++i) {
      const double value = scale * values[i * value_columns + column_of(row)];
      qkv.push_back(magnitudes ? std::abs(value) : value);
    }
  }
  const test::Values inputs{
      .tensors = {{"qkv", qkv}, {"offsets", in.at("offsets")}, {"num_documents", in.at("num_documents")}},
      .state = in.state};
  return evaluate<Real>(op::AttentionForward<Tensor>{.out = op.out,
                                                     .log_sum_exp = op.log_sum_exp,
                                                     .qkv = {},
                                                     .offsets = op.offsets,
                                                     .num_documents = op.num_documents,
                                                     .scratch = {},
                                                     .abs_max = {},
                                                     .shape = op.shape},
                        inputs);
}

template test::Values evaluate<double>(const op::AttentionForwardFp8<Tensor>& op, const test::Values& in, bool);

}  // namespace litespark::reference
