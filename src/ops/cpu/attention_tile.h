// SPDX-License-Identifier: Apache-2.0
// The pieces of tiled attention, over any vector type and operand precision ("Math", see F32Math). All tiles are kept
// transposed, a lane being a query: maxima and sums of the softmax run down the lanes and never across them.
// Everything depends on Math, so each instruction set gets functions of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/vec16_math.h"

namespace litespark::cpu {

/// Operands in f32, whatever the tensors hold. kVecs: how many vectors wide a register block may be.
template <class Vec16, int kVecs>
struct F32Math {
  using Vec = Vec16;
  using Element = float;
  using Operand = Vec16;
  static constexpr int kMaxVecs = kVecs;
  static constexpr int kPair = 1;       ///< consecutive terms of a sum that lie side by side in an operand
  static constexpr int kExpDegree = 6;  ///< full f32 precision

  static Operand load(const Element* from) { return Vec::load(from); }
  static Operand broadcast(const Element* from) { return Vec::broadcast(*from); }
  static Vec multiply_add(Operand a, Operand b, Vec sum) { return fma(a, b, sum); }
  static void store(Vec values, Element* to) { values.store(to); }
};

/// bits -> f32 without the shared inline function, which another instruction set's copy might replace at link time.
template <class Math>
inline float plain_float(const float* from) {
  return *from;
}
template <class Math>
inline float plain_float(const bf16* from) {
  const uint32_t bits = static_cast<uint32_t>(from->bits) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

/// C [rows, 16 vecs] (+)= A [rows, steps] B [steps, 16 vecs]; a step is Math::kPair terms. Strides in elements.
template <class Math>
struct TileProduct {
  const typename Math::Element* a;
  int64_t a_row, a_step;
  const typename Math::Element* b;
  int64_t b_step;
  float* c;
  int64_t c_row;
  int rows, vecs, steps;
};

enum class ProductStart {
  kZero,      ///< C = factor * A B
  kAdd,       ///< C += A B
  kRescaled,  ///< C = C * lane factors + A B
};

/// A block of C in registers. Needs kRows * kVecs accumulators, kVecs operands and one broadcast.
template <class Math, int kRows, int kVecs, ProductStart kStart>
inline void multiply_block(const TileProduct<Math>& product, int row, int vec, float factor, const float* factors) {
  using Vec = typename Math::Vec;
  Vec sums[kRows][kVecs];
  float* c = product.c + row * product.c_row + vec * 16;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      if constexpr (kStart == ProductStart::kZero) {
        sums[r][v] = Vec::zero();
      } else if constexpr (kStart == ProductStart::kAdd) {
        sums[r][v] = Vec::load(c + r * product.c_row + v * 16);
      } else {
        sums[r][v] = Vec::load(c + r * product.c_row + v * 16) * Vec::load(factors + (vec + v) * 16);
      }
    }
  }
  const typename Math::Element* a = product.a + row * product.a_row;
  const typename Math::Element* b = product.b + vec * 16 * Math::kPair;
  for (int step = 0; step < product.steps; ++step) {
    typename Math::Operand operands[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) operands[v] = Math::load(b + v * 16 * Math::kPair);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename Math::Operand left = Math::broadcast(a + r * product.a_row);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sums[r][v] = Math::multiply_add(left, operands[v], sums[r][v]);
    }
    a += product.a_step;
    b += product.b_step;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      if constexpr (kStart == ProductStart::kZero) sums[r][v] = sums[r][v] * Vec::broadcast(factor);
      sums[r][v].store(c + r * product.c_row + v * 16);
    }
  }
}

template <class Math, int kVecs, ProductStart kStart>
inline void multiply_columns(const TileProduct<Math>& product, int vec, float factor, const float* factors) {
  constexpr int kRows = 6;
  int row = 0;
  for (; row + kRows <= product.rows; row += kRows) {
    multiply_block<Math, kRows, kVecs, kStart>(product, row, vec, factor, factors);
  }
  if (row + 4 <= product.rows) {
    multiply_block<Math, 4, kVecs, kStart>(product, row, vec, factor, factors);
    row += 4;
  }
  if (row + 2 <= product.rows) {
    multiply_block<Math, 2, kVecs, kStart>(product, row, vec, factor, factors);
    row += 2;
  }
  if (row < product.rows) multiply_block<Math, 1, kVecs, kStart>(product, row, vec, factor, factors);
}

template <class Math, ProductStart kStart>
void multiply(const TileProduct<Math>& product, float factor = 1.0f, const float* factors = nullptr) {
  int vec = 0;
  if constexpr (Math::kMaxVecs >= 4) {
    for (; vec + 4 <= product.vecs; vec += 4) multiply_columns<Math, 4, kStart>(product, vec, factor, factors);
  }
  if constexpr (Math::kMaxVecs >= 2) {
    for (; vec + 2 <= product.vecs; vec += 2) multiply_columns<Math, 2, kStart>(product, vec, factor, factors);
  }
  for (; vec < product.vecs; ++vec) multiply_columns<Math, 1, kStart>(product, vec, factor, factors);
}

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

/// [tile, columns] -> [tile / kPair, columns, kPair].
template <class Math>
void rows_to_pairs(const typename Math::Element* rows, int columns, typename Math::Element* pairs) {
  for (int row = 0; row < kAttentionTile; row += Math::kPair) {
    for (int c = 0; c < columns; ++c) {
      for (int i = 0; i < Math::kPair; ++i) {
        pairs[(row * columns) + c * Math::kPair + i] = rows[(row + i) * columns + c];
      }
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

/// A tile of scores: keys k0 .. against queries q0 .., positions in the document.
struct TilePosition {
  int64_t k0 = 0, q0 = 0;
  int window = 0;

  bool is_diagonal() const { return k0 == q0; }
  bool needs_mask() const {
    return k0 + kAttentionTile - 1 > q0 || (window > 0 && k0 <= q0 + kAttentionTile - 1 - window);
  }
  /// Keys that the queries of lanes [16 vec, 16 vec + 16) can see at all: [0, this).
  int rows_seen_by(int vec) const { return is_diagonal() ? 16 * (vec + 1) : kAttentionTile; }
  /// First vector of queries that can see any key of rows [row, row + 16).
  int first_vec(int row) const { return is_diagonal() ? row / 16 : 0; }
};

/// The lanes of vector `vec` that see key row `row` of the tile.
template <class Vec>
inline typename Vec::Mask visible(const TilePosition& position, int row, int vec) {
  // Exact as a float up to documents of 2^24 tokens.
  const auto distance = static_cast<float>(position.q0 + 16 * vec - position.k0 - row);
  const Vec behind = Vec::broadcast(distance) + Vec::iota();  // query's position - key's
  const auto not_later = less(Vec::broadcast(-0.5f), behind);
  if (position.window == 0) return not_later;
  return both(not_later, less(behind, Vec::broadcast(static_cast<float>(position.window) - 0.5f)));
}

/// scores [tile, tile] = factor * left right: the tile's keys (or values) against the query columns.
template <class Math>
void tile_scores(const TilePosition& position, const AttentionHead& head, const typename Math::Element* left,
                 const typename Math::Element* columns, float factor, float* scores) {
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

/// sums [dim, tile] = sums * lane factors + pairs^T weights: values (or keys) weighted by the tile. `factors` null: 1.
template <class Math>
void add_weighted(const TilePosition& position, const AttentionHead& head, const typename Math::Element* pairs,
                  const typename Math::Element* weights, const float* factors, float* sums) {
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
