// SPDX-License-Identifier: Apache-2.0
// Products on the processor's matrix unit (AMX): sixteen rows of 32 bf16 against sixteen columns, sums in f32. Only for
// sources named *_amx.cpp. A thread says once what its tile registers look like and gives them back when it is done.
#pragma once

#include <immintrin.h>

#include "ops/cpu/bf16_math_avx512.h"
#include "ops/cpu/matrix_product.h"

namespace litespark::cpu::amx {

/// Rows and columns of a tile of sums.
inline constexpr int kTileSize = 16;

/// g++'s tile loads do not say that they read memory: what was written must be there before them.
inline void finish_stores() {
  __asm__ volatile("" ::: "memory");
}

/// All eight tile registers as sixteen rows of 64 bytes, for this thread, as long as this lives. The library's own
/// kernels set the registers up for themselves at each call.
class TileRegisters {
 public:
  TileRegisters() {
    struct alignas(64) Layout {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    const Layout layout;
    finish_stores();
    _tile_loadconfig(&layout);
  }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

/// Two by two tiles of sums at a time: each tile of A and of B is used twice.
template <bool kAdd>
inline void multiply_tiles(const MatrixProduct& product) {
  finish_stores();
  const int64_t a_bytes = product.a_row * 2;
  const int64_t b_bytes = product.b_pair * 2;
  const int64_t c_bytes = product.c_row * 4;
  const int64_t b_step = product.b_step == 0 ? kTileTerms / 2 * product.b_pair : product.b_step;
  for (int row = 0; row < product.rows; row += 2 * kTileSize) {
    for (int column = 0; column < product.columns; column += 2 * kTileSize) {
      float* const c = product.c + row * product.c_row + column;
      float* const c_below = c + kTileSize * product.c_row;
      if constexpr (kAdd) {
        _tile_loadd(0, c, c_bytes);
        _tile_loadd(1, c + kTileSize, c_bytes);
        _tile_loadd(2, c_below, c_bytes);
        _tile_loadd(3, c_below + kTileSize, c_bytes);
      } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      }
      const bf16* a = product.a + row * product.a_row;
      const bf16* b = product.b + int64_t{column} * 2;
      for (int term = 0; term < product.terms; term += kTileTerms, a += product.a_step, b += b_step) {
        _tile_loadd(4, a, a_bytes);
        _tile_loadd(6, b, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + 2 * kTileSize, b_bytes);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + kTileSize * product.a_row, a_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(0, c, c_bytes);
      _tile_stored(1, c + kTileSize, c_bytes);
      _tile_stored(2, c_below, c_bytes);
      _tile_stored(3, c_below + kTileSize, c_bytes);
    }
  }
}

/// bf16 operands, whole tiles of attention at once.
struct TileMath : Bf16Math {
  static constexpr bool kMultipliesTiles = true;

  template <bool kAdd>
  static void multiply_tiles(const MatrixProduct& product) {
    amx::multiply_tiles<kAdd>(product);
  }
};

}  // namespace litespark::cpu::amx
