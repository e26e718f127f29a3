// SPDX-License-Identifier: Apache-2.0
// Backward attention of a range of keys. Scores are recomputed tile by tile from the log-sum-exp; key and value
// gradients stay in f32 until every query has been seen, query gradients are summed over the range's key tiles.
#pragma once

#include "ops/cpu/attention_forward_tile.h"

namespace litespark::cpu {

/// scores -> weights and dscores -> dweights (gradients of the unscaled scores) for one vector of queries.
template <class Math>
void weigh_gradients(const TilePosition& position, int vec, const AttentionBackwardTask& task) {
  using Vec = typename Math::Vec;
  using Element = typename Math::Element;
  const int rows = position.rows_seen_by(vec);
  const bool needs_mask = position.needs_mask();
  const Vec log_sum = Vec::load(task.log_sums + vec * 16);
  const Vec delta = Vec::load(task.deltas + vec * 16);
  const auto weigh = [&](int row, Vec& weight, Vec& dweight) {
    const int at = row * kAttentionTile + vec * 16;
    weight = weight_of<Math>(Vec::load(task.scores + at), missing_factor<Math>(task.head), log_sum);
    if (needs_mask) weight = select(visible<Vec>(position, row, vec), weight, Vec::zero());
    dweight = weight * (Vec::load(task.dscores + at) - delta);
  };
  auto* weights = static_cast<Element*>(task.weights) + vec * 16;
  auto* dweights = static_cast<Element*>(task.dweights) + vec * 16;
  for (int row = 0; row < rows; row += Math::kPair) {
    Vec weight, dweight;
    weigh(row, weight, dweight);
    Math::store(weight, weights + row * kAttentionTile);
    Math::store(dweight, dweights + row * kAttentionTile);
    if constexpr (Math::kPair == 2) {
      Vec next_weight, next_dweight;
      weigh(row + 1, next_weight, next_dweight);
      Math::store(next_weight, weights + (row + 1) * kAttentionTile);
      Math::store(next_dweight, dweights + (row + 1) * kAttentionTile);
      Math::store_pairs(dweight, next_dweight,
                        static_cast<Element*>(task.dweight_columns) + row * kAttentionTile + vec * 32);
    }
  }
  if constexpr (Math::kMultipliesTiles) {
    for (int row = rows; row < kAttentionTile; row += 2) {
      for (int next = row; next < row + 2; ++next) {
        Math::store(Vec::zero(), weights + next * kAttentionTile);
        Math::store(Vec::zero(), dweights + next * kAttentionTile);
      }
      Math::store_pairs(Vec::zero(), Vec::zero(),
                        static_cast<Element*>(task.dweight_columns) + row * kAttentionTile + vec * 32);
    }
  }
}

/// sums [tile, padded_dim] += weights [tile, tile] rows [tile, padded_dim]: what a key gets from the queries.
template <class Math>
void add_to_keys(const TilePosition& position, const AttentionHead& head, const typename Math::Element* weights,
                 const typename Math::Element* pairs, float* sums) {
  if constexpr (Math::kMultipliesTiles) {
    return Math::template multiply_tiles<true>({.a = weights,
                                                .a_row = kAttentionTile,
                                                .b = pairs,
                                                .b_pair = 2 * int64_t{head.padded_dim},
                                                .c = sums,
                                                .c_row = head.padded_dim,
                                                .rows = kAttentionTile,
                                                .columns = head.padded_dim,
                                                .terms = kAttentionTile});
  }
  const int block_rows = position.is_diagonal() ? 16 : kAttentionTile;
  for (int row = 0; row < kAttentionTile; row += block_rows) {
    const int query = 16 * position.first_vec(row);
    multiply<Math, ProductStart::kAdd>({.a = weights + row * kAttentionTile + query,
                                        .a_row = kAttentionTile,
                                        .a_step = Math::kPair,
                                        .b = pairs + query * head.padded_dim,
                                        .b_step = int64_t{head.padded_dim} * Math::kPair,
                                        .c = sums + row * head.padded_dim,
                                        .c_row = head.padded_dim,
                                        .rows = block_rows,
                                        .vecs = (head.dim + 15) / 16,
                                        .steps = (kAttentionTile - query) / Math::kPair});
  }
}

/// Packs the rows of one query tile of one head both ways, and its two statistics.
template <class Math, class Value>
void begin_query_tile(const AttentionBackwardTask& task, int64_t head_index, int64_t first) {
  using Element = typename Math::Element;
  using Vec = typename Math::Vec;
  const AttentionHead& head = task.head;
  const int64_t count = task.length - first < kAttentionTile ? task.length - first : kAttentionTile;
  const auto pack = [&](const AttentionRows& rows, void* pairs, void* columns) {
    const auto* from = static_cast<const Value*>(rows.data) + first * rows.stride + head_index * head.dim;
    auto* dense = static_cast<Element*>(Math::kPair == 1 ? pairs : task.staging);
    pack_rows<Math>(from, rows.stride, count, head, dense);
    rows_to_columns<Math>(dense, head, static_cast<Element*>(columns));
    if constexpr (Math::kPair != 1) rows_to_pairs<Math>(dense, head.padded_dim, static_cast<Element*>(pairs));
  };
  pack(task.queries, task.query_rows, task.query_columns);
  pack(task.dout, task.dout_rows, task.dout_columns);
  for (int64_t row = 0; row < kAttentionTile; ++row) {
    task.log_sums[row] = __builtin_inff();  // rows past the document's end weigh nothing
    task.deltas[row] = 0;
    if (row >= count) continue;
    task.log_sums[row] = task.log_sum_exp[head_index * task.log_sum_exp_stride + first + row];
    const auto* out =
        static_cast<const Value*>(task.out.data) + (first + row) * task.out.stride + head_index * head.dim;
    const auto* dout =
        static_cast<const Value*>(task.dout.data) + (first + row) * task.dout.stride + head_index * head.dim;
    Vec products = Vec::zero();
    int d = 0;
    for (; d + 16 <= head.dim; d += 16) products = fma(Vec::load(out + d), Vec::load(dout + d), products);
    float delta = sum(products);
    for (; d < head.dim; ++d) delta += plain_float<Math>(out + d) * plain_float<Math>(dout + d);
    task.deltas[row] = delta;
  }
  for (int i = 0; i < head.padded_dim * kAttentionTile; i += 16) Vec::zero().store(task.query_sums + i);
}

template <class Math, class Value>
void finish_query_tile(const AttentionBackwardTask& task, int64_t head_index, int64_t first) {
  const AttentionHead& head = task.head;
  auto* rows = static_cast<float*>(task.staging);
  columns_to_rows<Math>(task.query_sums, head, rows);
  for (int64_t row = 0; row < kAttentionTile && first + row < task.length; ++row) {
    const float* from = rows + row * head.padded_dim;
    if (task.partial != nullptr) {
      store_row<Math>(from, head.scale, head.dim,
                      task.partial + (first + row) * task.partial_stride + head_index * head.dim);
    } else {
      store_row<Math>(
          from, head.scale, head.dim,
          static_cast<Value*>(task.dqueries.data) + (first + row) * task.dqueries.stride + head_index * head.dim);
    }
  }
}

template <class Math>
void backward_tile(const TilePosition& position, const AttentionBackwardTask& task, float slope) {
  using Element = typename Math::Element;
  const AttentionHead& head = task.head;
  const int64_t offset = (position.k0 - task.key_begin) * head.padded_dim;
  tile_scores<Math>(position, head, static_cast<const Element*>(task.key_rows) + offset,
                    static_cast<const Element*>(task.query_columns), head.scale, task.scores);
  if (slope != 0) add_distance_bias<Math>(position, head, slope, task.scores);
  tile_scores<Math>(position, head, static_cast<const Element*>(task.value_rows) + offset,
                    static_cast<const Element*>(task.dout_columns), 1.0f, task.dscores);
  for (int vec = 0; vec < kAttentionTile / 16; ++vec) weigh_gradients<Math>(position, vec, task);
  add_to_keys<Math>(position, head, static_cast<const Element*>(task.weights),
                    static_cast<const Element*>(task.dout_rows), task.value_sums + offset);
  add_to_keys<Math>(position, head, static_cast<const Element*>(task.dweights),
                    static_cast<const Element*>(task.query_rows), task.key_sums + offset);
  add_weighted<Math>(position, head, static_cast<const Element*>(task.key_pairs) + offset,
                     static_cast<const Element*>(task.dweight_columns), nullptr, task.query_sums);
}

/// Packs the range's keys and values and clears their sums.
template <class Math, class Value>
void begin_keys(const AttentionBackwardTask& task) {
  using Element = typename Math::Element;
  const AttentionHead& head = task.head;
  for (int64_t k0 = task.key_begin; k0 < task.key_end; k0 += kAttentionTile) {
    const int64_t count = task.key_end - k0 < kAttentionTile ? task.key_end - k0 : kAttentionTile;
    const int64_t offset = (k0 - task.key_begin) * head.padded_dim;
    auto* keys = static_cast<Element*>(task.key_rows) + offset;
    pack_rows<Math>(static_cast<const Value*>(task.keys.data) + k0 * task.keys.stride, task.keys.stride, count, head,
                    keys);
    pack_rows<Math>(static_cast<const Value*>(task.values.data) + k0 * task.values.stride, task.values.stride, count,
                    head, static_cast<Element*>(task.value_rows) + offset);
    if constexpr (Math::kPair != 1) {
      auto* pairs = static_cast<Element*>(task.key_pairs) + offset;
      if constexpr (Math::kMultipliesTiles) {
        auto* rows = static_cast<Element*>(task.staging);
        __builtin_memcpy(rows, keys, static_cast<size_t>(kAttentionTile * head.padded_dim) * sizeof(Element));
        rows_to_left_factor<Math>(rows, head, pairs);
      } else {
        rows_to_pairs<Math>(keys, head.padded_dim, pairs);
      }
    }
    for (int i = 0; i < kAttentionTile * head.padded_dim; i += 16) {
      Math::Vec::zero().store(task.key_sums + offset + i);
      Math::Vec::zero().store(task.value_sums + offset + i);
    }
  }
}

template <class Math, class Value>
void attention_backward(const AttentionBackwardTask& task) {
  const AttentionHead& head = task.head;
  begin_keys<Math, Value>(task);
  for (int64_t place = 0; place < task.group; ++place) {
    const int64_t head_index = task.heads == nullptr ? place : task.heads[place];
    const float slope = task.slopes == nullptr ? 0.0f : task.slopes[head_index];
    for (int64_t query = task.query_begin; query < task.query_end; query += kAttentionTile) {
      const int64_t q0 = task.query_offset + query;
      begin_query_tile<Math, Value>(task, head_index, query);
      for (int64_t k0 = task.key_begin; k0 < task.key_end && k0 <= q0; k0 += kAttentionTile) {
        if (head.window > 0 && k0 + kAttentionTile - 1 <= q0 - head.window) continue;
        const int64_t count = task.key_end - k0 < kAttentionTile ? task.key_end - k0 : kAttentionTile;
        backward_tile<Math>({.k0 = k0, .q0 = q0, .window = head.window, .num_keys = count}, task, slope);
      }
      finish_query_tile<Math, Value>(task, head_index, query);
    }
  }
  for (int64_t key = task.key_begin; key < task.key_end; ++key) {
    const int64_t offset = (key - task.key_begin) * head.padded_dim;
    if (task.dkey_sums.data != nullptr) {
      add_row<Math>(task.key_sums + offset, head.scale, head.dim, task.dkey_sums.data + key * task.dkey_sums.stride);
      add_row<Math>(task.value_sums + offset, 1.0f, head.dim, task.dvalue_sums.data + key * task.dvalue_sums.stride);
      continue;
    }
    store_row<Math>(task.key_sums + offset, head.scale, head.dim,
                    static_cast<Value*>(task.dkeys.data) + key * task.dkeys.stride);
    store_row<Math>(task.value_sums + offset, 1.0f, head.dim,
                    static_cast<Value*>(task.dvalues.data) + key * task.dvalues.stride);
  }
}

}  // namespace litespark::cpu
