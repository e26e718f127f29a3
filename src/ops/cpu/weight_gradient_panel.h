// SPDX-License-Identifier: Apache-2.0
// The panel kernels of the weight gradient over any Math of tile_product.h. A panel of dY serves as the left factor,
// one of X as the right one: the same layout, since a step of the product is a pair of tokens in both.
#pragma once

#include "ops/cpu/tile_product.h"
#include "ops/cpu/weight_gradient_kernels.h"

namespace litespark::cpu {

/// One pair of tokens (or one token) of a panel; `second` is null behind the last token and where there are no pairs.
template <class Math, class Value>
inline void pack_step(const Value* first, const Value* second, int columns, typename Math::Element* to) {
  using Element = typename Math::Element;
  int column = 0;
  if constexpr (Math::kPair == 1) {
    for (; column + 16 <= columns; column += 16) Math::Vec::load(first + column).store(to + column);
  } else if (second != nullptr) {
    for (; column + 16 <= columns; column += 16) Math::interleave(first + column, second + column, to + 2 * column);
  }
  for (; column < kPanelColumns; ++column) {
    Value pair[2] = {};
    if (column < columns) {
      pair[0] = first[column];
      if (second != nullptr) pair[1] = second[column];
    }
    for (int i = 0; i < Math::kPair; ++i) {
      if constexpr (sizeof(Element) == sizeof(Value)) {
        to[column * Math::kPair + i] = pair[i];
      } else {
        to[column] = plain_float<Math>(pair);
      }
    }
  }
}

template <class Math, class Value>
void pack_panel(const PanelPacking& packing) {
  auto* to = static_cast<typename Math::Element*>(packing.panel);
  const auto* from = static_cast<const Value*>(packing.values);
  for (int64_t token = 0; token < packing.tokens; token += Math::kPair) {
    const bool has_second = Math::kPair == 2 && token + 2 <= packing.tokens;
    pack_step<Math, Value>(from, has_second ? from + packing.stride : nullptr, packing.columns, to);
    from += Math::kPair * packing.stride;
    to += kPanelColumns * Math::kPair;
  }
}

template <class Math>
void multiply_panels(const PanelProduct& product) {
  // Columns that fill no vector are added up in a copy.
  float edge[kPanelColumns * 16];
  const int whole = product.columns / 16;
  const int rest = product.columns % 16;
  TileProduct<Math> tile{.a = static_cast<const typename Math::Element*>(product.outputs),
                         .a_row = Math::kPair,
                         .a_step = kPanelColumns * Math::kPair,
                         .b = static_cast<const typename Math::Element*>(product.inputs),
                         .b_step = kPanelColumns * Math::kPair,
                         .c = product.gradient,
                         .c_row = product.stride,
                         .rows = product.rows,
                         .vecs = whole,
                         .steps = static_cast<int>((product.tokens + Math::kPair - 1) / Math::kPair)};
  const auto multiply_tile = [&] {
    if (product.accumulate) {
      multiply<Math, ProductStart::kAdd>(tile);
    } else {
      multiply<Math, ProductStart::kZero>(tile);
    }
  };
  if (whole > 0) multiply_tile();
  if (rest == 0) return;
  for (int row = 0; row < product.rows; ++row) {
    for (int i = 0; i < 16; ++i) {
      edge[row * 16 + i] = i < rest ? product.gradient[row * product.stride + whole * 16 + i] : 0.0f;
    }
  }
  tile.b += whole * 16 * Math::kPair;
  tile.c = edge;
  tile.c_row = 16;
  tile.vecs = 1;
  multiply_tile();
  for (int row = 0; row < product.rows; ++row) {
    for (int i = 0; i < rest; ++i) product.gradient[row * product.stride + whole * 16 + i] = edge[row * 16 + i];
  }
}

template <class Math, class Value>
PanelKernels make_panel_kernels() {
  return {.pack_outputs = pack_panel<Math, Value>,
          .pack_inputs = pack_panel<Math, Value>,
          .multiply = multiply_panels<Math>,
          .bf16_elements = Math::kPair == 2,
          .token_step = Math::kPair};
}

}  // namespace litespark::cpu
