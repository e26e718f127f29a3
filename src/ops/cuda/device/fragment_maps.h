// SPDX-License-Identifier: Apache-2.0
// Where each lane's registers lie in the tiles of mma.m16n8k16 and ldmatrix.x4 (PTX ISA, "Matrix fragments"), as
// constant functions: kernels address with them, tests emulate the instructions on the CPU and multiply.
#pragma once

namespace litespark::cuda {

struct TileCoordinate {
  int row = 0;
  int column = 0;
};

/// Element `half` (0 or 1) of A register `index` (0..3): A is 16 x 16, row-major.
constexpr TileCoordinate mma_a(int lane, int index, int half) {
  return {.row = lane / 4 + 8 * (index % 2), .column = 2 * (lane % 4) + 8 * (index / 2) + half};
}

/// Element `half` of B register `index` (0..1): B is 16 (k, the row here) x 8 (n, the column).
constexpr TileCoordinate mma_b(int lane, int index, int half) {
  return {.row = 2 * (lane % 4) + 8 * index + half, .column = lane / 4};
}

/// Accumulator `index` (0..3): 16 x 8. A row is spread over the four lanes of a quad.
constexpr TileCoordinate mma_c(int lane, int index) {
  return {.row = lane / 4 + 8 * (index / 2), .column = 2 * (lane % 4) + index % 2};
}

/// Address that `lane` gives to ldmatrix.x4 so that the four registers are an A operand: a 16 x 16 block at (0, 0).
constexpr TileCoordinate ldmatrix_a(int lane) {
  return {.row = lane % 16, .column = 8 * (lane / 16)};
}

/// The same for two neighbouring B operands out of a tile stored [n][k]: 16 n rows x 16 k columns. Registers 0, 1 are
/// the B of n 0..7, registers 2, 3 of n 8..15.
constexpr TileCoordinate ldmatrix_b(int lane) {
  return {.row = lane % 8 + 8 * (lane / 16), .column = 8 * (lane / 8 % 2)};
}

/// The same out of a tile stored [k][n], through ldmatrix.trans: 16 k rows x 16 n columns.
constexpr TileCoordinate ldmatrix_b_transposed(int lane) {
  return {.row = lane % 16, .column = 8 * (lane / 16)};
}

/// Row pitch, in elements, of a bf16 tile of `columns` in shared memory: 16 bytes more than the row. For every multiple
/// of 16 columns the eight rows of an 8 x 8 matrix then lie in eight different groups of four banks.
constexpr int padded_pitch(int columns) {
  return columns + 8;
}

}  // namespace litespark::cuda
