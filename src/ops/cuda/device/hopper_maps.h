// SPDX-License-Identifier: Apache-2.0
// Layouts of Hopper's wgmma and of the tiles that the tensor memory accelerator writes for it, as constant functions:
// kernels address with them, tests emulate the hardware on the CPU. One layout of a tile serves both operand orders.
#pragma once

#include <cstdint>

namespace litespark::cuda {

/// A tile of bf16 in shared memory: panels of 64 columns one after another, rows of 128 bytes in each, 16-byte chunks
/// exchanged within each 1024 bytes by the 128-byte swizzle. Its start is a multiple of 1024.
///
/// Columns that are not whole panels of 64 lie in narrower ones, of 32 or 16: rows of 64 or 32 bytes, with the swizzle
/// of that width, which like the other spreads 8 rows over all banks. So a head of 96 takes the room of 96, and no
/// column of its neighbour's is ever loaded. kRowBytes below is such a row.
inline constexpr int kPanelColumns = 64;
inline constexpr int kPanelRowBytes = 128;

/// The widest row of which `columns` of bf16 are a whole number.
constexpr int panel_row_bytes(int columns) {
  return columns % 64 == 0 ? 128 : columns % 32 == 0 ? 64 : 32;
}

/// The swizzle of rows of `row_bytes`: a function of the address.
constexpr uint32_t swizzled(uint32_t byte, int row_bytes) {
  return byte ^ (((byte >> 7) & static_cast<uint32_t>(row_bytes / 16 - 1)) << 4);
}

/// Byte of element (row, column) in a tile of `rows` rows, as a copy of boxes of `rows` rows leaves it.
template <int kRowBytes = kPanelRowBytes>
constexpr uint32_t panel_byte(int rows, int row, int column) {
  constexpr int kColumns = kRowBytes / 2;
  const int panel = column / kColumns;
  return static_cast<uint32_t>(panel * rows * kRowBytes) +
         swizzled(static_cast<uint32_t>(row * kRowBytes + column % kColumns * 2), kRowBytes);
}

/// Shared-memory matrix descriptor with the swizzle of kRowBytes. `leading` and `stride` in bytes.
template <int kRowBytes = kPanelRowBytes>
constexpr uint64_t matrix_descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
  constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
  return uint64_t{(address & 0x3ffffu) >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 |
         kSwizzle << 62;
}

/// The descriptor of a place `bytes` further on: one addition in a loop over steps.
constexpr uint64_t advance_descriptor(uint64_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

/// Bytes between groups of 8 rows: the stride offset of every descriptor here.
template <int kRowBytes>
constexpr uint32_t row_group_bytes() {
  return 8 * kRowBytes;
}
inline constexpr uint32_t kRowGroupBytes = row_group_bytes<kPanelRowBytes>();

/// K-major use (the tile's rows are m or n, its columns k): offset of columns 16 `step` .. + 15.
template <int kRowBytes = kPanelRowBytes>
constexpr uint32_t k_major_offset(int rows, int step) {
  constexpr int kSteps = kRowBytes / 32;
  return static_cast<uint32_t>(step / kSteps * rows * kRowBytes + step % kSteps * 32);
}

/// MN-major use (the tile's rows are k, its columns n): offset of rows 16 `step` .. + 15, and the leading offset, from
/// one panel of n to the next.
template <int kRowBytes = kPanelRowBytes>
constexpr uint32_t mn_major_offset(int step) {
  return static_cast<uint32_t>(step * 16 * kRowBytes);
}
template <int kRowBytes = kPanelRowBytes>
constexpr uint32_t mn_major_leading(int rows) {
  return static_cast<uint32_t>(rows * kRowBytes);
}

/// Descriptors of a tile's first step in either use.
template <int kRowBytes = kPanelRowBytes>
constexpr uint64_t k_major_descriptor(uint32_t address) {
  return matrix_descriptor<kRowBytes>(address, 0, row_group_bytes<kRowBytes>());
}
template <int kRowBytes = kPanelRowBytes>
constexpr uint64_t mn_major_descriptor(uint32_t address, int rows) {
  return matrix_descriptor<kRowBytes>(address, mn_major_leading<kRowBytes>(rows), row_group_bytes<kRowBytes>());
}

/// Accumulator `index` of a lane in warp `warp` of the warpgroup: 64 rows.
constexpr int accumulator_row(int warp, int lane, int index) {
  return 16 * warp + lane / 4 + 8 * (index / 2 % 2);
}
constexpr int accumulator_column(int lane, int index) {
  return 8 * (index / 4) + 2 * (lane % 4) + index % 2;
}

/// Row whose address `lane` gives to stmatrix.x4 so that four registers in the order of an A operand land in a 16 x 16
/// block, and its first column.
constexpr int stmatrix_row(int lane) {
  return lane % 16;
}
constexpr int stmatrix_column(int lane) {
  return 8 * (lane / 16);
}

/// From panel_byte of some row and one of its first 16 columns to the byte 16 `step` columns further on: an exclusive
/// or instead of a new address, whatever the row.
template <int kRowBytes = kPanelRowBytes>
constexpr uint32_t advance_columns(uint32_t byte, int rows, int step) {
  constexpr int kSteps = kRowBytes / 32;
  return (byte ^ static_cast<uint32_t>(step % kSteps * 32)) + static_cast<uint32_t>(step / kSteps * rows * kRowBytes);
}

/// Where element `half` of A register `index` (0..3) lies in the 64 x 16 operand.
constexpr int a_register_row(int warp, int lane, int index) {
  return 16 * warp + lane / 4 + 8 * (index % 2);
}
constexpr int a_register_column(int lane, int index, int half) {
  return 2 * (lane % 4) + 8 * (index / 2) + half;
}

/// Accumulators of 64 rows as each warpgroup of the attention backward writes them: float `element` of thread t's four
/// is accumulator 4 c + element, and the four lie at float 4 (128 c + t). Every access is 16 bytes a thread, side by
/// side.
struct GradientFragment {
  int row = 0;     ///< of accumulators 4 c and 4 c + 1; 4 c + 2 and 4 c + 3 are 8 rows further down
  int column = 0;  ///< of accumulators 4 c and 4 c + 2; the others are one to the right
};
constexpr GradientFragment gradient_fragment(int quad) {
  const int thread = quad % 128;
  const int first = quad / 128 * 4;
  return {.row = accumulator_row(thread / 32, thread % 32, first), .column = accumulator_column(thread % 32, first)};
}

/// Stage and parity of a ring of kStages barriers after `count` uses. A consumer waits for the full barrier with
/// parity(); a producer waits for the empty one with the other parity, which passes at once the first time round.
template <int kStages>
struct PipelineState {
  int stage = 0;
  uint32_t phase = 0;

  constexpr void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  constexpr uint32_t full_parity() const { return phase; }
  constexpr uint32_t empty_parity() const { return phase ^ 1; }
};

}  // namespace litespark::cuda
