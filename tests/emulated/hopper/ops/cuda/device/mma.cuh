// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: addresses of the emulated shared memory, instructions of a warp, in which
// every lane reads what the others gave, and copies that arrive late.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "core/bf16.h"
#include "ops/cuda/device/fragment_maps.h"
#include "ops/cuda/device/math.cuh"

namespace litespark::cuda {

inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const unsigned char*>(pointer) - emulated::shared_memory());
}

inline unsigned char* launched_shared() {
  return emulated::shared_memory();
}

struct MmaOperands {
  const uint32_t* a;
  uint32_t b[2];
};
inline float half_of(uint32_t word, int half) {
  return to_float(bf16{static_cast<uint16_t>(word >> (16 * half))});
}

inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const MmaOperands own{.a = a, .b = {b0, b1}};
  const uint64_t* const given = emulated::exchange(std::bit_cast<uint64_t>(&own));
  float left[16][16];
  float right[16][8];
  for (int other = 0; other < 32; ++other) {
    const auto* const operands = std::bit_cast<const MmaOperands*>(given[other]);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        const TileCoordinate at = mma_a(other, i, half);
        left[at.row][at.column] = half_of(operands->a[i], half);
      }
      for (int i = 0; i < 2; ++i) {
        const TileCoordinate at = mma_b(other, i, half);
        right[at.row][at.column] = half_of(operands->b[i], half);
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    const TileCoordinate at = mma_c(lane, i);
    for (int k = 0; k < 16; ++k) c[i] += left[at.row][k] * right[k][at.column];
  }
  emulated::exchange(0);  // nobody changes operands that another still reads
}

inline uint32_t shared_word(uint64_t address) {
  uint32_t word;
  std::memcpy(&word, emulated::shared_memory() + address, sizeof word);
  return word;
}

inline void load_matrix(uint32_t (&registers)[4], uint32_t address) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint64_t* const rows = emulated::exchange(address);
  for (int matrix = 0; matrix < 4; ++matrix) {
    registers[matrix] = shared_word(rows[8 * matrix + lane / 4] + static_cast<uint64_t>(4 * (lane % 4)));
  }
}

inline void load_matrix_transposed(uint32_t (&registers)[4], uint32_t address) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint64_t* const rows = emulated::exchange(address);
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint32_t halves[2];
    for (int half = 0; half < 2; ++half) {
      const uint32_t word = shared_word(rows[8 * matrix + 2 * (lane % 4) + half] + static_cast<uint64_t>(lane / 8 * 4));
      halves[half] = word >> (lane / 4 % 2 * 16) & 0xffff;
    }
    registers[matrix] = halves[0] | halves[1] << 16;
  }
}

/// What is under way is NaN. Nothing is read when `exists` is false.
inline void copy_async_16(uint32_t shared, const void* global, bool exists) {
  unsigned char* const to = emulated::shared_memory() + shared;
  std::memset(to, 0xff, 16);
  emulated::add_bulk([=] {
    if (exists) {
      std::memcpy(to, global, 16);
    } else {
      std::memset(to, 0, 16);
    }
  });
}
inline void copy_async_commit() {
  emulated::commit_bulk();
}
template <int kPending>
void copy_async_wait() {
  emulated::wait_bulk(kPending);
}

}  // namespace litespark::cuda
