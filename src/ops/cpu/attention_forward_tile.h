// SPDX-License-Identifier: Apache-2.0
// Forward attention of a few query tiles that share keys. A key tile is packed once and serves all of them; the softmax
// is kept online: largest score, total weight and weighted sum of values of each query lane.
#pragma once

#include "ops/cpu/attention_tile.h"

namespace litespark::cpu {

/// Below every score; finite, so that differences of two of them are numbers.
inline constexpr float kNoScore = -1e30f;

/// scores -> weights of one vector of queries, updating its running maximum and total; `rescale` receives the factor
/// that older sums must be multiplied with.
template <class Math>
void update_softmax(const TilePosition& position, int vec, const AttentionForwardTask& task,
                    const AttentionUnit& unit) {
  using Vec = typename Math::Vec;
  float* scores = task.scores + vec * 16;
  auto* weights = static_cast<typename Math::Element*>(task.weights) + vec * 16 * Math::kPair;
  const int rows = position.rows_seen_by(vec);
  const float factor = missing_factor<Math>(task.head);
  const bool needs_mask = position.needs_mask();
  const Vec before = Vec::load(unit.largest + vec * 16);
  Vec largest = Math::kMultipliesTiles ? Vec::broadcast(-__builtin_inff()) : before;
  if (needs_mask) {
    const Vec none = Vec::broadcast(-__builtin_inff());
    for (int row = 0; row < rows; ++row) {
      const Vec score = select(visible<Vec>(position, row, vec), Vec::load(scores + row * kAttentionTile), none);
      score.store(scores + row * kAttentionTile);
      largest = max(score, largest);
    }
  } else {
    for (int row = 0; row < rows; ++row) largest = max(Vec::load(scores + row * kAttentionTile), largest);
  }
  if constexpr (Math::kMultipliesTiles) largest = max(largest * Vec::broadcast(factor), before);
  largest.store(unit.largest + vec * 16);
  const Vec rescale = vec_exp_of_difference<Math::kExpDegree>(before - largest);
  rescale.store(task.rescale + vec * 16);
  Vec total = Vec::load(unit.total + vec * 16) * rescale;
  const auto weigh = [&](int row) {
    const Vec score = Vec::load(scores + row * kAttentionTile);
    const Vec weight = weight_of<Math>(score, factor, largest);
    return needs_mask ? select(less(score, Vec::broadcast(kNoScore)), Vec::zero(), weight) : weight;
  };
  for (int row = 0; row < rows; row += Math::kPair) {
    const Vec first = weigh(row);
    if constexpr (Math::kPair == 1) {
      first.store(weights + row * kAttentionTile);
      total = total + first;
    } else {
      const Vec second = weigh(row + 1);
      Math::store_pairs(first, second, weights + row * kAttentionTile);
      total = total + (first + second);
    }
  }
  total.store(unit.total + vec * 16);
  if constexpr (Math::kMultipliesTiles) {
    for (int row = rows; row < kAttentionTile; row += 2) {
      Math::store_pairs(Vec::zero(), Vec::zero(), weights + row * kAttentionTile);
    }
  }
}

template <class Math>
void attend_tile(const TilePosition& position, const AttentionForwardTask& task, const AttentionUnit& unit,
                 float slope) {
  using Element = typename Math::Element;
  tile_scores<Math>(position, task.head, static_cast<const Element*>(task.keys_tile),
                    static_cast<const Element*>(unit.queries), task.head.scale, task.scores);
  if (slope != 0) add_distance_bias<Math>(position, task.head, slope, task.scores);
  for (int vec = 0; vec < kAttentionTile / 16; ++vec) update_softmax<Math>(position, vec, task, unit);
  add_weighted<Math>(position, task.head, static_cast<const Element*>(task.values_tile),
                     static_cast<const Element*>(task.weights), task.rescale, unit.sum);
}

/// Where a unit of a task lies: unit u is tile u / group of the task's head u % group.
struct UnitPlace {
  UnitPlace(const AttentionForwardTask& task, int64_t unit)
      : head(task.heads == nullptr ? unit % task.group : task.heads[unit % task.group]),
        first_query(unit / task.group * kAttentionTile),
        num_queries(task.num_queries - first_query < kAttentionTile ? task.num_queries - first_query : kAttentionTile) {
  }
  int64_t head, first_query, num_queries;
};

/// What the unit's queries have seen of other keys, as if it were one key: its score their log-sum-exp, its weight 1.
template <class Math>
void take_merged(const AttentionForwardTask& task, const UnitPlace& place, const AttentionUnit& unit) {
  const AttentionHead& head = task.head;
  const float* from = task.merged.data + place.head * head.dim + place.first_query * task.merged.stride;
  auto* rows = static_cast<float*>(task.staging);
  for (int64_t row = 0; row < kAttentionTile; ++row, rows += head.padded_dim) {
    unit.largest[row] = kNoScore;
    unit.total[row] = 0;
    int d = 0;
    if (row < place.num_queries) {
      const float seen = task.log_sum_exp[place.head * task.log_sum_exp_stride + place.first_query + row];
      if (!(seen <= kNoScore)) {
        unit.largest[row] = seen;
        unit.total[row] = 1;
      }
      __builtin_memcpy(rows, from + row * task.merged.stride, static_cast<size_t>(head.dim) * sizeof(float));
      d = head.dim;
    }
    for (; d < head.padded_dim; ++d) rows[d] = 0;
  }
  float_rows_to_columns<Math>(static_cast<const float*>(task.staging), head, unit.sum);
}

template <class Math, class Value>
void begin_unit(const AttentionForwardTask& task, int64_t index) {
  using Element = typename Math::Element;
  using Vec = typename Math::Vec;
  const AttentionUnit& unit = task.units[index];
  const UnitPlace place(task, index);
  const auto* queries = static_cast<const Value*>(task.queries.data) + place.head * task.head.dim +
                        place.first_query * task.queries.stride;
  pack_rows<Math>(queries, task.queries.stride, place.num_queries, task.head, static_cast<Element*>(task.staging));
  rows_to_columns<Math>(static_cast<const Element*>(task.staging), task.head, static_cast<Element*>(unit.queries));
  if (task.merged.data != nullptr) return take_merged<Math>(task, place, unit);
  for (int i = 0; i < task.head.padded_dim * kAttentionTile; i += 16) Vec::zero().store(unit.sum + i);
  for (int lane = 0; lane < kAttentionTile; lane += 16) {
    Vec::broadcast(kNoScore).store(unit.largest + lane);
    Vec::zero().store(unit.total + lane);
  }
}

/// `staging` holds the unit's sums as rows.
template <class Math>
void leave_merged(const AttentionForwardTask& task, const UnitPlace& place, const AttentionUnit& unit) {
  const auto* rows = static_cast<const float*>(task.staging);
  float* out = task.merged.data + place.head * task.head.dim + place.first_query * task.merged.stride;
  for (int64_t row = 0; row < place.num_queries; ++row) {
    const float factor = unit.total[row] == 0 ? 0.0f : 1.0f / unit.total[row];
    store_row<Math>(rows + row * task.head.padded_dim, factor, task.head.dim, out + row * task.merged.stride);
    task.log_sum_exp[place.head * task.log_sum_exp_stride + place.first_query + row] =
        unit.total[row] == 0 ? -__builtin_inff() : unit.largest[row] + __builtin_logf(unit.total[row]);
  }
}

template <class Math, class Value>
void finish_unit(const AttentionForwardTask& task, int64_t index) {
  const AttentionUnit& unit = task.units[index];
  const UnitPlace place(task, index);
  auto* rows = static_cast<float*>(task.staging);
  columns_to_rows<Math>(unit.sum, task.head, rows);
  if (task.merged.data != nullptr) return leave_merged<Math>(task, place, unit);
  auto* out = static_cast<Value*>(task.out.data) + place.head * task.head.dim + place.first_query * task.out.stride;
  for (int64_t row = 0; row < place.num_queries; ++row) {
    store_row<Math>(rows + row * task.head.padded_dim, 1.0f / unit.total[row], task.head.dim,
                    out + row * task.out.stride);
    if (task.log_sum_exp == nullptr) continue;
    task.log_sum_exp[place.head * task.log_sum_exp_stride + place.first_query + row] =
        unit.largest[row] + __builtin_logf(unit.total[row]);
  }
}

template <class Math, class Value>
void attention_forward(const AttentionForwardTask& task) {
  using Element = typename Math::Element;
  const AttentionHead& head = task.head;
  const int64_t num_units = (task.num_queries + kAttentionTile - 1) / kAttentionTile * task.group;
  for (int64_t unit = 0; unit < num_units; ++unit) begin_unit<Math, Value>(task, unit);
  const int64_t seen = task.first_position + task.num_queries;
  const int64_t num_keys = seen < task.num_keys ? seen : task.num_keys;
  int64_t k0 = 0;
  if (head.window > 0 && task.first_position >= head.window) {
    k0 = (task.first_position - head.window + 1) / kAttentionTile * kAttentionTile;
  }
  for (; k0 < num_keys; k0 += kAttentionTile) {
    const int64_t count = num_keys - k0 < kAttentionTile ? num_keys - k0 : kAttentionTile;
    pack_rows<Math>(static_cast<const Value*>(task.keys.data) + k0 * task.keys.stride, task.keys.stride, count, head,
                    static_cast<Element*>(task.keys_tile));
    const auto* values = static_cast<const Value*>(task.values.data) + k0 * task.values.stride;
    if constexpr (Math::kPair == 1) {
      pack_rows<Math>(values, task.values.stride, count, head, static_cast<Element*>(task.values_tile));
    } else {
      pack_rows<Math>(values, task.values.stride, count, head, static_cast<Element*>(task.staging));
      rows_to_left_factor<Math>(static_cast<Element*>(task.staging), head, static_cast<Element*>(task.values_tile));
    }
    for (int64_t unit = 0; unit < num_units; ++unit) {
      const UnitPlace place(task, unit);
      const TilePosition position{
          .k0 = k0, .q0 = task.first_position + place.first_query, .window = head.window, .num_keys = count};
      const bool too_late = k0 >= position.q0 + place.num_queries;
      const bool too_early = head.window > 0 && k0 + kAttentionTile - 1 <= position.q0 - head.window;
      const float slope = task.slopes == nullptr ? 0.0f : task.slopes[place.head];
      if (!too_late && !too_early) attend_tile<Math>(position, task, task.units[unit], slope);
    }
  }
  for (int64_t unit = 0; unit < num_units; ++unit) finish_unit<Math, Value>(task, unit);
}

/// One query against keys one by one: what generation needs, where a tile of queries would be nearly empty.
template <class Math, class Value>
void attention_row(const AttentionRowTask& task) {
  using Vec = typename Math::Vec;
  constexpr int kBlock = 16;
  const int dim = task.head.dim;
  const auto dot = [dim](const Value* a, const Value* b) {
    Vec products = Vec::zero();
    int d = 0;
    for (; d + 16 <= dim; d += 16) products = fma(Vec::load(a + d), Vec::load(b + d), products);
    float result = sum(products);
    for (; d < dim; ++d) result += plain_float<Math>(a + d) * plain_float<Math>(b + d);
    return result;
  };
  float sums[kAttentionMaxRowDim];
  for (int d = 0; d < task.head.padded_dim; d += 16) Vec::zero().store(sums + d);
  float best = kNoScore;
  float total = 0;
  for (int64_t key = task.first; key <= task.last; key += kBlock) {
    const int count = static_cast<int>(task.last + 1 - key < kBlock ? task.last + 1 - key : kBlock);
    float scores[kBlock];
    for (int i = 0; i < kBlock; ++i) {
      scores[i] =
          i < count ? task.head.scale * dot(static_cast<const Value*>(task.query),
                                            static_cast<const Value*>(task.keys.data) + (key + i) * task.keys.stride) -
                          task.slope * static_cast<float>(task.last - key - i)
                    : -__builtin_inff();
    }
    const float now = largest(max(Vec::load(scores), Vec::broadcast(best)));
    float rescale[kBlock];
    vec_exp_of_difference<Math::kExpDegree>(Vec::broadcast(best - now)).store(rescale);
    best = now;
    Vec weights = vec_exp_of_difference<Math::kExpDegree>(Vec::load(scores) - Vec::broadcast(now));
    weights = select(less(Vec::load(scores), Vec::broadcast(kNoScore)), Vec::zero(), weights);
    total = total * rescale[0] + sum(weights);
    weights.store(scores);
    for (int d = 0; d + 16 <= dim; d += 16) {
      Vec values = Vec::load(sums + d) * Vec::broadcast(rescale[0]);
      for (int i = 0; i < count; ++i) {
        const auto* value = static_cast<const Value*>(task.values.data) + (key + i) * task.values.stride;
        values = fma(Vec::broadcast(scores[i]), Vec::load(value + d), values);
      }
      values.store(sums + d);
    }
    for (int d = dim / 16 * 16; d < dim; ++d) {
      sums[d] *= rescale[0];
      for (int i = 0; i < count; ++i) {
        const auto* value = static_cast<const Value*>(task.values.data) + (key + i) * task.values.stride;
        sums[d] += scores[i] * plain_float<Math>(value + d);
      }
    }
  }
  store_row<Math>(sums, 1.0f / total, dim, static_cast<Value*>(task.out));
}

}  // namespace litespark::cpu
