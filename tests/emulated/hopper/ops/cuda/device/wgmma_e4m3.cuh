// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: as in wgmma.cuh, with 32 codes to a step and A registers of four codes
// (PTX ISA, "matrix fragments for wgmma.mma_async.m64nNk32").
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "core/fp8.h"
#include "ops/cuda/device/hopper_maps.h"

namespace litespark::cuda {

/// The value of a code, from a table.
inline float e4m3_value(uint8_t code) {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> result;
    for (size_t i = 0; i < result.size(); ++i) result[i] = fp8_to_float(DType::kE4M3, static_cast<uint8_t>(i));
    return result;
  }();
  return values[code];
}

/// Element (mn, k) of the K-major operand that a descriptor points at.
inline float e4m3_operand(uint64_t descriptor, int mn, int k) {
  const uint32_t start = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
  const uint32_t stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  const uint32_t byte = static_cast<uint32_t>(mn / 8) * stride + static_cast<uint32_t>(mn % 8 * 128 + k);
  return e4m3_value(emulated::shared_memory()[swizzled(start + byte, kPanelRowBytes)]);
}

template <int kN>
struct WgmmaE4m3 {
  using Rows = std::array<std::array<float, 32>, 2>;  ///< of A: the thread's two rows

  static void accumulate_rows(float (&d)[kN / 2], const Rows& a, uint64_t b, bool accumulate) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int i = 0; i < kN / 2; ++i) {
      float sum = accumulate ? d[i] : 0;
      const int column = accumulator_column(lane, i);
      for (size_t k = 0; k < 32; ++k) {
        sum += a[static_cast<size_t>(i / 2 % 2)][k] * e4m3_operand(b, column, static_cast<int>(k));
      }
      d[i] = sum;
    }
  }

  static void multiply(float (&d)[kN / 2], uint64_t a, uint64_t b, bool accumulate) {
    emulated::add_product([&d, a, b, accumulate] {
      const int thread = static_cast<int>(threadIdx.x) % 128;
      Rows rows;
      for (int half = 0; half < 2; ++half) {
        for (int k = 0; k < 32; ++k) {
          rows[static_cast<size_t>(half)][static_cast<size_t>(k)] =
              e4m3_operand(a, accumulator_row(thread / 32, thread % 32, 2 * half), k);
        }
      }
      accumulate_rows(d, rows, b, accumulate);
    });
  }

  static void multiply(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Rows rows;
    for (int index = 0; index < 4; ++index) {
      std::array<uint64_t, 32> lanes;
      std::memcpy(lanes.data(), emulated::exchange(a[index]), sizeof lanes);
      for (int owner = 0; owner < 4; ++owner) {
        for (int byte = 0; byte < 4; ++byte) {
          const auto code = static_cast<uint8_t>(lanes[static_cast<size_t>(lane / 4 * 4 + owner)] >> (8 * byte));
          rows[static_cast<size_t>(index % 2)][static_cast<size_t>(16 * (index / 2) + 4 * owner + byte)] =
              e4m3_value(code);
        }
      }
    }
    emulated::add_product([&d, rows, b, accumulate] { accumulate_rows(d, rows, b, accumulate); });
  }
};

}  // namespace litespark::cuda
