// SPDX-License-Identifier: Apache-2.0
// The weight gradient's panel kernels for processors with a matrix unit. A panel is a chain of pieces of 32 tokens: of
// X as [16, 64, 2], pairs of tokens side by side; of dY turned round, as [64, 32], a row of tokens for each column.
#include "ops/cpu/tile_math_amx.h"
//
#include "ops/cpu/weight_gradient_panel.h"

namespace litespark::cpu {
namespace amx {

constexpr int64_t kPieceElements = int64_t{kPanelColumns} * kTileTerms;

/// The pieces of a panel as pairs of tokens; the last one is filled up with zeros.
void pack_inputs(const PanelPacking& packing) {
  pack_panel<TileMath, bf16>(packing);
  const int64_t pairs = (packing.tokens + 1) / 2;
  const int64_t whole = (packing.tokens + kTileTerms - 1) / kTileTerms * (kTileTerms / 2);
  auto* const panel = static_cast<bf16*>(packing.panel);
  for (int64_t i = pairs * 2 * kPanelColumns; i < whole * 2 * kPanelColumns; ++i) panel[i] = bf16{};
}

void pack_outputs(const PanelPacking& packing) {
  alignas(64) bf16 pairs[kPieceElements];
  auto* piece = static_cast<bf16*>(packing.panel);
  for (int64_t first = 0; first < packing.tokens; first += kTileTerms, piece += kPieceElements) {
    PanelPacking part = packing;
    part.values = static_cast<const bf16*>(packing.values) + first * packing.stride;
    part.tokens = packing.tokens - first < kTileTerms ? packing.tokens - first : kTileTerms;
    part.panel = pairs;
    pack_inputs(part);
    // A pair of tokens moves as one 32-bit unit.
    constexpr int kUnits = kTileTerms / 2;
    for (int column = 0; column < kPanelColumns; column += 16) {
      Vec16::transpose(reinterpret_cast<const float*>(pairs) + column, kPanelColumns,
                       reinterpret_cast<float*>(piece) + column * kUnits, kUnits);
    }
  }
}

void multiply(const PanelProduct& product) {
  const TileRegisters registers;
  const bool is_whole = product.rows == kPanelColumns && product.columns == kPanelColumns;
  // What fills no panel is summed beside the gradient.
  alignas(64) float edge[kPanelColumns * kPanelColumns];
  MatrixProduct whole{.a = static_cast<const bf16*>(product.outputs),
                      .a_row = kTileTerms,
                      .b = static_cast<const bf16*>(product.inputs),
                      .b_pair = 2 * kPanelColumns,
                      .c = is_whole ? product.gradient : edge,
                      .c_row = is_whole ? product.stride : kPanelColumns,
                      .rows = kPanelColumns,
                      .columns = kPanelColumns,
                      .terms = static_cast<int>((product.tokens + kTileTerms - 1) / kTileTerms * kTileTerms),
                      .a_step = kPieceElements,
                      .b_step = kPieceElements};
  if (is_whole) {
    product.accumulate ? multiply_tiles<true>(whole) : multiply_tiles<false>(whole);
    return;
  }
  for (int row = 0; row < kPanelColumns; ++row) {
    for (int column = 0; column < kPanelColumns; ++column) {
      const bool is_there = product.accumulate && row < product.rows && column < product.columns;
      edge[row * kPanelColumns + column] = is_there ? product.gradient[row * product.stride + column] : 0.0f;
    }
  }
  multiply_tiles<true>(whole);
  for (int row = 0; row < product.rows; ++row) {
    for (int column = 0; column < product.columns; ++column) {
      product.gradient[row * product.stride + column] = edge[row * kPanelColumns + column];
    }
  }
}

}  // namespace amx

PanelKernels panel_kernels_amx() {
  return {.pack_outputs = amx::pack_outputs,
          .pack_inputs = amx::pack_inputs,
          .multiply = amx::multiply,
          .bf16_elements = true,
          .token_step = kTileTerms,
          // What a task works on must fit into the second-level cache: the first one is read too slowly in any case.
          .block_tokens = 1024,
          .stretch_tokens = 1024};
}

}  // namespace litespark::cpu
