// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: each thread computes its own accumulators from what the descriptors point
// at, and does so as late as the hardware may, when their group is waited for.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "core/bf16.h"
#include "ops/cuda/device/hopper_maps.h"

namespace litespark::cuda {

inline int unknown_value(int value) {
  return value;
}

inline void wgmma_fence() {}
inline void wgmma_commit() {
  emulated::commit_products();
}
template <int kPending>
void wgmma_wait() {
  emulated::wait_products(kPending);
}
template <int kCount>
void hold_registers(float (&)[kCount]) {}

inline void store_matrix(uint32_t address, const uint32_t (&registers)[4]) {
  std::array<uint64_t, 32> addresses;
  std::memcpy(addresses.data(), emulated::exchange(address), sizeof addresses);
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t matrix = 0; matrix < 4; ++matrix) {
    const auto row = static_cast<uint32_t>(addresses[8 * matrix + lane / 4]);
    std::memcpy(emulated::shared_memory() + row + lane % 4 * 4, &registers[matrix], 4);
  }
}

/// Bytes of a row in the layout that a descriptor names.
inline int descriptor_row_bytes(uint64_t descriptor) {
  const int swizzle = static_cast<int>(descriptor >> 62);
  if (swizzle == 0) emulated::fail("a descriptor without a swizzle");
  return 256 >> swizzle;
}

/// Element (mn, k) of the operand that a descriptor points at (PTX ISA, canonical layouts of the swizzles).
inline float operand(uint64_t descriptor, bool mn_major, int mn, int k) {
  const uint32_t start = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
  const uint32_t leading = static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4;
  const uint32_t stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  const int row = descriptor_row_bytes(descriptor);
  const int across = row / 2;
  const uint32_t byte = mn_major
                            ? static_cast<uint32_t>(mn / across) * leading + static_cast<uint32_t>(k / 8) * stride +
                                  static_cast<uint32_t>(k % 8 * row + mn % across * 2)
                            : static_cast<uint32_t>(mn / 8) * stride + static_cast<uint32_t>(mn % 8 * row + k * 2);
  bf16 value;
  std::memcpy(&value, emulated::shared_memory() + swizzled(start + byte, row), 2);
  return to_float(value);
}

template <int kN>
struct Wgmma {
  using Rows = std::array<std::array<float, 16>, 2>;  ///< of A: the thread's two rows

  static void accumulate_rows(float (&d)[kN / 2], const Rows& a, uint64_t b, bool b_mn_major, bool accumulate) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int i = 0; i < kN / 2; ++i) {
      float sum = accumulate ? d[i] : 0;
      if (i / 2 % 2 == 0) {
        // Both rows of a column at once: B's column is read once.
        float below = accumulate ? d[i + 2] : 0;
        const int column = accumulator_column(lane, i);
        for (int k = 0; k < 16; ++k) {
          const float value = operand(b, b_mn_major, column, k);
          sum += a[0][static_cast<size_t>(k)] * value;
          below += a[1][static_cast<size_t>(k)] * value;
        }
        d[i] = sum;
        d[i + 2] = below;
      }
    }
  }

  template <int kTransposeB, int kTransposeA = 0>
  static void multiply(float (&d)[kN / 2], uint64_t a, uint64_t b, bool accumulate) {
    emulated::add_product([&d, a, b, accumulate] {
      const int thread = static_cast<int>(threadIdx.x) % 128;
      Rows rows;
      for (int half = 0; half < 2; ++half) {
        for (int k = 0; k < 16; ++k) {
          rows[static_cast<size_t>(half)][static_cast<size_t>(k)] =
              operand(a, kTransposeA == 1, accumulator_row(thread / 32, thread % 32, 2 * half), k);
        }
      }
      accumulate_rows(d, rows, b, kTransposeB == 1, accumulate);
    });
  }

  template <int kTransposeB>
  static void multiply(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Rows rows;
    for (int index = 0; index < 4; ++index) {
      std::array<uint64_t, 32> lanes;
      std::memcpy(lanes.data(), emulated::exchange(a[index]), sizeof lanes);
      for (int owner = lane / 4 * 4; owner < lane / 4 * 4 + 4; ++owner) {
        for (int half = 0; half < 2; ++half) {
          const auto bits = static_cast<uint16_t>(lanes[static_cast<size_t>(owner)] >> (16 * half));
          rows[static_cast<size_t>(index % 2)][static_cast<size_t>(a_register_column(owner, index, half))] =
              to_float(bf16{bits});
        }
      }
    }
    emulated::add_product([&d, rows, b, accumulate] { accumulate_rows(d, rows, b, kTransposeB == 1, accumulate); });
  }
};

}  // namespace litespark::cuda
