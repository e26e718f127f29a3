// SPDX-License-Identifier: Apache-2.0
// The rotation with its table in each precision: time, and errors against angles, products and sums in double.
#include <algorithm>
#include <cmath>
#include <span>

#include "anatomy/positions.h"
#include "anatomy/workspace.h"
#include "core/checked.h"

namespace litespark::anatomy {
namespace {

/// One rotation and what it needs.
struct Rotation {
  Workspace workspace;
  op::Rope<Tensor> op;

  Rotation(Backend& backend, DType dtype, const PositionSizes& sizes, RopePrecision precision) : workspace(backend) {
    const int64_t rows = sizes.sequences * sizes.length;
    const int64_t all_heads = sizes.heads + 2 * sizes.kv_heads;
    std::vector<int32_t> places(static_cast<size_t>(rows));
    for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int32_t>(static_cast<int64_t>(i) % sizes.length);
    const RopeConfig rope{.precision = precision};
    const std::vector<std::byte> values = stored_rope_table(rope, sizes.head_dim, sizes.length);
    op = {.qkv = workspace.numbers(dtype, {rows, all_heads * sizes.head_dim}),
          .table = workspace.zeros(rope_table_dtype(rope), {sizes.length, sizes.head_dim}),
          .positions = workspace.integers(places),
          .abs_max = {},
          .num_rotated_heads = static_cast<int>(sizes.heads + sizes.kv_heads),
          .num_heads_total = static_cast<int>(all_heads),
          .head_dim = static_cast<int>(sizes.head_dim)};
    backend.copy_to_device(op.table.data, values.data(), op.table.bytes());
  }
};

/// Head `head` of row `row` turned in double.
std::vector<double> exact_head(std::span<const float> qkv, const op::Rope<Tensor>& op, int64_t row, int64_t head,
                               int64_t length, std::span<const double> frequencies) {
  const size_t half = frequencies.size();
  const float* const values = qkv.data() + (row * op.num_heads_total + head) * op.head_dim;
  std::vector<double> turned(2 * half);
  for (size_t i = 0; i < half; ++i) {
    const double angle = real(row % length) * frequencies[i];
    const double first = static_cast<double>(values[i]);
    const double second = static_cast<double>(values[half + i]);
    turned[i] = first * std::cos(angle) - second * std::sin(angle);
    turned[half + i] = second * std::cos(angle) + first * std::sin(angle);
  }
  return turned;
}

/// What the first query head and the first key head of the first sequence became, and should have become.
struct Turned {
  std::vector<std::vector<double>> exact, ours;  ///< a row each
};

Turned turn_head(Rotation& rotation, const PositionSizes& sizes, int64_t head) {
  const std::vector<double> frequencies = rope_frequencies({}, sizes.head_dim);
  const std::vector<float> before = rotation.workspace.floats(rotation.op.qkv);
  rotation.op.inverse = false;
  rotation.workspace.backend().run(rotation.op);
  const std::vector<float> after = rotation.workspace.floats(rotation.op.qkv);
  Turned turned;
  for (int64_t row = 0; row < sizes.length; ++row) {
    turned.exact.push_back(exact_head(before, rotation.op, row, head, sizes.length, frequencies));
    const float* const values = after.data() + (row * rotation.op.num_heads_total + head) * sizes.head_dim;
    turned.ours.emplace_back(values, values + sizes.head_dim);
  }
  return turned;
}

double rms_error(const Turned& turned) {
  double error = 0;
  double size = 0;
  for (size_t row = 0; row < turned.exact.size(); ++row) {
    for (size_t i = 0; i < turned.exact[row].size(); ++i) {
      const double difference = turned.ours[row][i] - turned.exact[row][i];
      error += difference * difference;
      size += turned.exact[row][i] * turned.exact[row][i];
    }
  }
  return std::sqrt(error / size);
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double largest_score_error(const Turned& queries, const Turned& keys) {
  const std::vector<double>& query = queries.exact.back();
  double largest = 0;
  for (size_t row = 0; row < keys.exact.size(); ++row) {
    const double lengths = std::sqrt(product(query, query) * product(keys.exact[row], keys.exact[row]));
    const double difference = product(queries.ours.back(), keys.ours[row]) - product(query, keys.exact[row]);
    largest = std::max(largest, std::abs(difference) / lengths);
  }
  return largest;
}

}  // namespace

RopeCost measure_rope(Backend& backend, const MeasureOptions& options, const PositionSizes& sizes,
                      RopePrecision precision) {
  RopeCost cost;
  Rotation timed(backend, options.compute, sizes, precision);
  cost.table_bytes = real(timed.op.table.bytes());
  cost.compute_error = rms_error(turn_head(timed, sizes, 0));
  // Turning back and forth, so that the numbers stay what they are.
  const Timing both = time_runs(backend, options.seconds, [&] {
    timed.op.inverse = false;
    backend.run(timed.op);
    timed.op.inverse = true;
    backend.run(timed.op);
  });
  cost.seconds = both.best_seconds / 2;
  PositionSizes one = sizes;
  one.sequences = 1;
  Rotation of_queries(backend, DType::kF32, one, precision);
  Rotation of_keys(backend, DType::kF32, one, precision);
  const Turned queries = turn_head(of_queries, one, 0);
  cost.f32_error = rms_error(queries);
  cost.score_error = largest_score_error(queries, turn_head(of_keys, one, sizes.heads));
  return cost;
}

}  // namespace litespark::anatomy
