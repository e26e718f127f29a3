// SPDX-License-Identifier: Apache-2.0
// core/bf16_rounding.h sixteen lanes at a time. Plain loops over lanes that the compiler widens; templates over Vec so
// that each instruction set has functions of its own, which is why the scalar functions are not called from here.
#pragma once

#include <cstdint>

#include "core/bf16_rounding.h"
#include "ops/cpu/kernel_table.h"

namespace litespark::cpu {

/// Lanes of the noise of elements i .. i + 15 of a stretch; `i` is a multiple of 16.
template <class Vec>
struct RoundingNoise {
  alignas(64) uint32_t low[16], high[16];

  RoundingNoise(const AdamWPart& args, NoiseUse use, int64_t i) {
    constexpr int kBlocks = 4;
    uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
    const uint64_t first_block = static_cast<uint64_t>(args.first_element + i) / 4;
    for (int b = 0; b < kBlocks; ++b) {
      c0[b] = static_cast<uint32_t>(first_block + static_cast<uint64_t>(b));
      c1[b] = static_cast<uint32_t>((first_block + static_cast<uint64_t>(b)) >> 32);
      c2[b] = static_cast<uint32_t>(args.noise_step);
      c3[b] = static_cast<uint32_t>(use);
    }
    auto key0 = static_cast<uint32_t>(args.seed);
    auto key1 = static_cast<uint32_t>(args.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int b = 0; b < kBlocks; ++b) {
        const uint64_t product0 = uint64_t{0xD2511F53u} * c0[b];
        const uint64_t product1 = uint64_t{0xCD9E8D57u} * c2[b];
        c0[b] = static_cast<uint32_t>(product1 >> 32) ^ c1[b] ^ key0;
        c1[b] = static_cast<uint32_t>(product1);
        c2[b] = static_cast<uint32_t>(product0 >> 32) ^ c3[b] ^ key1;
        c3[b] = static_cast<uint32_t>(product0);
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int b = 0; b < kBlocks; ++b) {
      const uint32_t words[4] = {c0[b], c1[b], c2[b], c3[b]};
      for (int w = 0; w < 4; ++w) {
        low[4 * b + w] = words[w] & 0xffffu;
        high[4 * b + w] = words[w] >> 16;
      }
    }
  }
};

/// The bits of sixteen lanes.
template <class Vec>
struct LaneBits {
  alignas(64) uint32_t lane[16];

  explicit LaneBits(Vec value) { value.store(reinterpret_cast<float*>(lane)); }
  Vec value() const { return Vec::load(reinterpret_cast<const float*>(lane)); }
};

/// (bits + addend) without its low half; NaN stays NaN.
template <class Vec>
inline uint16_t upper_half(uint32_t bits, uint32_t addend) {
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>((is_nan ? bits | 0x400000u : bits + addend) >> 16);
}

template <class Vec, class Part>
inline Vec load_split(Part part, const bf16* weight, const uint16_t* remainder) {
  LaneBits<Vec> bits(Vec::zero());
  for (int64_t i = 0; i < part.count(); ++i) {
    const auto moved = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(remainder[i])));
    bits.lane[i] = (uint32_t{weight[i].bits} << 16) + moved;
  }
  return bits.value();
}

template <class Vec, class Part>
inline void store_split(Part part, bf16* weight, uint16_t* remainder, Vec value) {
  const LaneBits<Vec> bits(value);
  for (int64_t i = 0; i < part.count(); ++i) {
    const bool is_nan = (bits.lane[i] & 0x7fffffffu) > 0x7f800000u;
    weight[i].bits = upper_half<Vec>(bits.lane[i], 0x8000u);
    remainder[i] = static_cast<uint16_t>(is_nan ? 0u : bits.lane[i]);
  }
}

/// To the nearest, ties away from zero: the weight of a split.
template <class Vec, class Part>
inline void store_nearest_away(Part part, bf16* weight, Vec value) {
  const LaneBits<Vec> bits(value);
  for (int64_t i = 0; i < part.count(); ++i) weight[i].bits = upper_half<Vec>(bits.lane[i], 0x8000u);
}

template <class Vec, class Part>
inline void store_stochastic(Part part, bf16* to, Vec value, const uint32_t* noise) {
  const LaneBits<Vec> bits(value);
  for (int64_t i = 0; i < part.count(); ++i) to[i].bits = upper_half<Vec>(bits.lane[i], noise[i]);
}

}  // namespace litespark::cpu
