// SPDX-License-Identifier: Apache-2.0
// The pieces of tiled attention, over any vector type and operand precision ("Math", see tile_product.h). All tiles are
// kept transposed, a lane being a query: maxima and sums of the softmax run down the lanes and never across them.
// Everything depends on Math, so each instruction set gets functions of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/tile_product.h"
#include "ops/cpu/vec16_math.h"

namespace litespark::cpu {

/// `count` rows of a tensor as dense rows of elements; columns past `dim` and rows past `count` are zero.
template <class Math, class Value>
void pack_rows(const Value* from, int64_t stride, int64_t count, const AttentionHead& head,
               typename Math::Element* to) {
  using Element = typename Math::Element;
  for (int64_t row = 0; row < kAttentionTile; ++row, to += head.padded_dim) {
    int d = 0;
    if (row < count) {
      if constexpr (sizeof(Element) == sizeof(Value)) {
        __builtin_memcpy(to, from + row * stride, static_cast<size_t>(head.dim) * sizeof(Element));
        d = head.dim;
      } else {
        for (; d + 16 <= head.dim; d += 16) Math::Vec::load(from + row * stride + d).store(to + d);
        for (; d < head.dim; ++d) to[d] = plain_float<Math>(from + row * stride + d);
      }
    }
    for (; d < head.padded_dim; ++d) to[d] = Element{};
  }
}

/// [tile, padded_dim] -> [padded_dim / kPair, tile, kPair]: a lane is a row.
template <class Math>
void rows_to_columns(const typename Math::Element* rows, const AttentionHead& head, typename Math::Element* columns) {
  // Pairs move as one 32-bit unit.
  const int units = head.padded_dim / Math::kPair;
  const auto* from = reinterpret_cast<const float*>(rows);
  auto* to = reinterpret_cast<float*>(columns);
  for (int row = 0; row < kAttentionTile; row += 16) {
    for (int unit = 0; unit < units; unit += 16) {
      Math::Vec::transpose(from + row * units + unit, units, to + unit * kAttentionTile + row, kAttentionTile);
    }
  }
}

/// [tile, columns] -> [tile / kPair, columns, kPair]; columns in sixteens.
template <class Math>
void rows_to_pairs(const typename Math::Element* rows, int columns, typename Math::Element* pairs) {
  static_assert(Math::kPair == 2);
  for (int row = 0; row < kAttentionTile; row += 2, rows += 2 * columns, pairs += 2 * columns) {
    for (int c = 0; c < columns; c += 16) Math::interleave(rows + c, rows + columns + c, pairs + 2 * c);
  }
}

/// [tile, padded_dim] -> what add_weighted takes: pairs of rows, or [padded_dim, tile] for a matrix unit. `rows` is the
/// beginning of a buffer of f32 elements, whose second half is overwritten.
template <class Math>
void rows_to_left_factor(typename Math::Element* rows, const AttentionHead& head, typename Math::Element* to) {
  if constexpr (!Math::kMultipliesTiles) {
    rows_to_pairs<Math>(rows, head.padded_dim, to);
  } else {
    auto* pairs = rows + kAttentionTile * head.padded_dim;
    rows_to_pairs<Math>(rows, head.padded_dim, pairs);
    // A pair moves as one 32-bit unit.
    const auto* from = reinterpret_cast<const float*>(pairs);
    auto* units = reinterpret_cast<float*>(to);
    constexpr int kUnits = kAttentionTile / 2;
    for (int pair = 0; pair < kUnits; pair += 16) {
      for (int d = 0; d < head.padded_dim; d += 16) {
        Math::Vec::transpose(from + pair * head.padded_dim + d, head.padded_dim, units + d * kUnits + pair, kUnits);
      }
    }
  }
}

/// Rows [tile, padded_dim] f32 -> [padded_dim, tile].
template <class Math>
void float_rows_to_columns(const float* rows, const AttentionHead& head, float* columns) {
  for (int row = 0; row < kAttentionTile; row += 16) {
    for (int d = 0; d < head.padded_dim; d += 16) {
      Math::Vec::transpose(rows + row * head.padded_dim + d, head.padded_dim, columns + d * kAttentionTile + row,
                           kAttentionTile);
    }
  }
}

/// [padded_dim, tile] f32 -> rows [tile, padded_dim].
template <class Math>
void columns_to_rows(const float* columns, const AttentionHead& head, float* rows) {
  for (int d = 0; d < head.padded_dim; d += 16) {
    for (int row = 0; row < kAttentionTile; row += 16) {
      Math::Vec::transpose(columns + d * kAttentionTile + row, kAttentionTile, rows + row * head.padded_dim + d,
                           head.padded_dim);
    }
  }
}

/// One row of `dim` floats times a factor, rounded to the tensor's dtype.
template <class Math, class Value>
void store_row(const float* from, float factor, int dim, Value* to) {
  using Vec = typename Math::Vec;
  const Vec factors = Vec::broadcast(factor);
  int d = 0;
  for (; d + 16 <= dim; d += 16) (Vec::load(from + d) * factors).store(to + d);
  if (d == dim) return;
  Value tail[16];
  (Vec::load(from + d) * factors).store(tail);  // the source is padded
  for (int i = 0; d + i < dim; ++i) to[d + i] = tail[i];
}

/// `to` += one row of `dim` floats times a factor.
template <class Math>
void add_row(const float* from, float factor, int dim, float* to) {
  using Vec = typename Math::Vec;
  int d = 0;
  for (; d + 16 <= dim; d += 16) fma(Vec::load(from + d), Vec::broadcast(factor), Vec::load(to + d)).store(to + d);
  for (; d < dim; ++d) to[d] += from[d] * factor;
}

/// A tile of scores: keys k0 .. against queries q0 .., positions in the document.
struct TilePosition {
  int64_t k0 = 0, q0 = 0;
  int window = 0;
  int64_t num_keys = kAttentionTile;  ///< that there are; the tile's other rows are seen by nobody

  bool is_diagonal() const { return k0 == q0; }
  bool needs_mask() const {
    return k0 + kAttentionTile - 1 > q0 || num_keys < kAttentionTile ||
           (window > 0 && k0 <= q0 + kAttentionTile - 1 - window);
  }
  /// Keys that the queries of lanes [16 vec, 16 vec + 16) can see at all: [0, this).
  int rows_seen_by(int vec) const { return is_diagonal() ? 16 * (vec + 1) : kAttentionTile; }
  /// First vector of queries that can see any key of rows [row, row + 16).
  int first_vec(int row) const { return is_diagonal() ? row / 16 : 0; }
};

/// The lanes of vector `vec` that see key row `row` of the tile.
template <class Vec>
inline typename Vec::Mask visible(const TilePosition& position, int row, int vec) {
  constexpr float kAhead = -1e9f;  // a key that is not there comes after every query
  // Exact as a float up to documents of 2^24 tokens.
  const auto distance =
      row < position.num_keys ? static_cast<float>(position.q0 + 16 * vec - position.k0 - row) : kAhead;
  const Vec behind = Vec::broadcast(distance) + Vec::iota();  // query's position - key's
  const auto not_later = less(Vec::broadcast(-0.5f), behind);
  if (position.window == 0) return not_later;
  return both(not_later, less(behind, Vec::broadcast(static_cast<float>(position.window) - 0.5f)));
}

/// scores [tile, tile] = factor * left right: the tile's keys (or values) against the query columns. A matrix unit
/// leaves out the factor.
template <class Math>
void tile_scores(const TilePosition& position, const AttentionHead& head, const typename Math::Element* left,
                 const typename Math::Element* columns, float factor, float* scores) {
  if constexpr (Math::kMultipliesTiles) {
    return Math::template multiply_tiles<false>({.a = left,
                                                 .a_row = head.padded_dim,
                                                 .b = columns,
                                                 .b_pair = 2 * kAttentionTile,
                                                 .c = scores,
                                                 .c_row = kAttentionTile,
                                                 .rows = kAttentionTile,
                                                 .columns = kAttentionTile,
                                                 .terms = head.padded_dim});
  }
  TileProduct<Math> product{.a = left,
                            .a_row = head.padded_dim,
                            .a_step = Math::kPair,
                            .b = columns,
                            .b_step = kAttentionTile * Math::kPair,
                            .c = scores,
                            .c_row = kAttentionTile,
                            .rows = kAttentionTile,
                            .vecs = kAttentionTile / 16,
                            .steps = (head.dim + Math::kPair - 1) / Math::kPair};
  if (!position.is_diagonal()) {
    multiply<Math, ProductStart::kZero>(product, factor);
    return;
  }
  for (int row = 0; row < kAttentionTile; row += 16) {
    product.a = left + row * head.padded_dim;
    product.b = columns + row * Math::kPair;
    product.c = scores + row * kAttentionTile + row;
    product.rows = 16;
    product.vecs = (kAttentionTile - row) / 16;
    multiply<Math, ProductStart::kZero>(product, factor);
  }
}

/// What a score as tile_scores left it must still be multiplied with.
template <class Math>
inline float missing_factor(const AttentionHead& head) {
  return Math::kMultipliesTiles ? head.scale : 1.0f;
}

/// scores -= slope * distance from key to query, in whatever unit tile_scores left them. Rows that no lane of a vector
/// sees are left as they are.
template <class Math>
void add_distance_bias(const TilePosition& position, const AttentionHead& head, float slope, float* scores) {
  using Vec = typename Math::Vec;
  const Vec per_position = Vec::broadcast(-slope / missing_factor<Math>(head));
  for (int vec = 0; vec < kAttentionTile / 16; ++vec) {
    for (int row = 0; row < position.rows_seen_by(vec); ++row) {
      const auto distance = static_cast<float>(position.q0 + 16 * vec - position.k0 - row);
      float* const at = scores + row * kAttentionTile + 16 * vec;
      fma(Vec::broadcast(distance) + Vec::iota(), per_position, Vec::load(at)).store(at);
    }
  }
}

/// e^(factor score - shift), the result of which cannot be large; `factor` is missing_factor. In powers of two on a
/// matrix unit, where all that is no product counts: one rounding more, far below that of a bf16 weight.
template <class Math>
inline typename Math::Vec weight_of(typename Math::Vec score, float factor, typename Math::Vec shift) {
  using Vec = typename Math::Vec;
  if constexpr (Math::kMultipliesTiles) {
    constexpr float kLog2E = 1.44269504f;
    return vec_exp2_of_difference<Math::kExpDegree>(
        fma(score, Vec::broadcast(factor * kLog2E), shift * Vec::broadcast(-kLog2E)));
  } else {
    return vec_exp_of_difference<Math::kExpDegree>(score - shift);
  }
}

/// What add_weighted does on a matrix unit: always the whole tile, in which what a query does not see weighs zero.
template <class Math>
void add_weighted_tiles(const AttentionHead& head, const typename Math::Element* columns,
                        const typename Math::Element* weights, const float* factors, float* sums) {
  using Vec = typename Math::Vec;
  if (factors != nullptr) {
    Vec lanes[kAttentionTile / 16];
    for (int vec = 0; vec < kAttentionTile / 16; ++vec) lanes[vec] = Vec::load(factors + 16 * vec);
    for (int d = 0; d < head.dim; ++d) {
      float* const row = sums + d * kAttentionTile;
      for (int vec = 0; vec < kAttentionTile / 16; ++vec)
        (Vec::load(row + 16 * vec) * lanes[vec]).store(row + 16 * vec);
    }
  }
  Math::template multiply_tiles<true>({.a = columns,
                                       .a_row = kAttentionTile,
                                       .b = weights,
                                       .b_pair = 2 * kAttentionTile,
                                       .c = sums,
                                       .c_row = kAttentionTile,
                                       .rows = head.padded_dim,
                                       .columns = kAttentionTile,
                                       .terms = kAttentionTile});
}

/// sums [dim, tile] = sums * lane factors + pairs^T weights: values (or keys) weighted by the tile, as
/// rows_to_left_factor gives them. `factors` null: 1.
template <class Math>
void add_weighted(const TilePosition& position, const AttentionHead& head, const typename Math::Element* pairs,
                  const typename Math::Element* weights, const float* factors, float* sums) {
  if constexpr (Math::kMultipliesTiles) return add_weighted_tiles<Math>(head, pairs, weights, factors, sums);
  TileProduct<Math> product{.a = pairs,
                            .a_row = Math::kPair,
                            .a_step = int64_t{head.padded_dim} * Math::kPair,
                            .b = weights,
                            .b_step = kAttentionTile * Math::kPair,
                            .c = sums,
                            .c_row = kAttentionTile,
                            .rows = head.dim,
                            .vecs = kAttentionTile / 16,
                            .steps = kAttentionTile / Math::kPair};
  const int step_rows = position.is_diagonal() ? 16 : kAttentionTile;
  product.steps = step_rows / Math::kPair;
  for (int row = 0; row < kAttentionTile; row += step_rows) {
    const int vec = position.first_vec(row);
    product.a = pairs + row * head.padded_dim;
    product.b = weights + row * kAttentionTile + vec * 16 * Math::kPair;
    product.c = sums + vec * 16;
    product.vecs = kAttentionTile / 16 - vec;
    if (factors != nullptr && row == 0) {
      multiply<Math, ProductStart::kRescaled>(product, 1.0f, factors);
    } else {
      multiply<Math, ProductStart::kAdd>(product);
    }
  }
}

}  // namespace litespark::cpu
