// SPDX-License-Identifier: Apache-2.0
// One block of a 16-bit message, written and read. Plain loops over lanes that the compiler widens; templates over Vec
// so that each instruction set has functions of its own.
#pragma once

#include <cstdint>

#include "ops/cpu/kernel_table.h"

namespace litespark::cpu {

/// What std::bit_cast does, but never a function that instruction sets would share.
template <class Vec>
inline uint32_t bits_of(float value) {
  return __builtin_bit_cast(uint32_t, value);
}
template <class Vec>
inline float float_of(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// `one` or the other, without a branch: what may trap (a float's sum) would keep the compiler from widening one.
template <class Vec>
inline uint32_t pick(bool is_one, uint32_t one, uint32_t other) {
  return other ^ ((one ^ other) & (0u - static_cast<uint32_t>(is_one)));
}

/// 2^exponent, a normal float.
template <class Vec>
inline float power_of_two(int exponent) {
  return float_of<Vec>(static_cast<uint32_t>(exponent + 127) << 23);
}

/// `value`, or 0 where one of the others is not finite.
template <class Vec>
inline float where_finite(float value, float first, float second) {
  const uint32_t first_exponent = bits_of<Vec>(first) & 0x7f800000u;
  const uint32_t second_exponent = bits_of<Vec>(second) & 0x7f800000u;
  const uint32_t larger = first_exponent > second_exponent ? first_exponent : second_exponent;
  return float_of<Vec>(pick<Vec>(larger == 0x7f800000u, 0u, bits_of<Vec>(value)));
}

/// To nearest, ties to even.
template <class Vec>
struct BF16Words {
  static uint16_t from(float value) {
    const uint32_t bits = bits_of<Vec>(value);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return static_cast<uint16_t>(pick<Vec>(is_nan, bits | 0x400000u, rounded) >> 16);
  }
  static float to(uint16_t word) { return float_of<Vec>(uint32_t{word} << 16); }
};

/// Likewise, with a range from 2^-24 to 65504.
template <class Vec>
struct FP16Words {
  static uint16_t from(float value) {
    const uint32_t bits = bits_of<Vec>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    // Below 2^-14 there are steps of 2^-24, which are the last places of numbers from 0.5 to 1.
    const uint32_t small = bits_of<Vec>(float_of<Vec>(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
    const uint32_t capped = normal < 0x7c00u ? normal : 0x7c00u;
    const uint32_t number = pick<Vec>(magnitude < 0x38800000u, small, capped);
    const uint32_t word = pick<Vec>(magnitude > 0x7f800000u, 0x7e00u, number);
    return static_cast<uint16_t>(word | ((bits >> 16) & 0x8000u));
  }
  static float to(uint16_t word) {
    const uint32_t exponent = word & 0x7c00u;
    const uint32_t magnitude = (word & 0x7fffu) << 13;
    const uint32_t small = bits_of<Vec>(static_cast<float>(static_cast<int32_t>(word & 0x3ffu)) * 0x1p-24f);
    const uint32_t number = pick<Vec>(exponent == 0, small, magnitude + (112u << 23));
    const uint32_t bits = pick<Vec>(exponent == 0x7c00u, magnitude | 0x7f800000u, number);
    return float_of<Vec>(bits | (uint32_t{word & 0x8000u} << 16));
  }
};

template <class Vec>
inline void widen(const fp16* from, float* to, int64_t size) {
  for (int64_t i = 0; i < size; ++i) to[i] = FP16Words<Vec>::to(from[i].bits);
}

/// What a block is multiplied by before it is rounded.
template <class Vec>
struct BlockScale {
  float up = 1, down = 1;

  explicit BlockScale(int exponent) : up(power_of_two<Vec>(exponent)), down(power_of_two<Vec>(-exponent)) {}
};

template <class Vec, class Words, bool kHasResidual>
inline void round_block(const MessageBlock& block, const BlockScale<Vec>& scale) {
  for (int64_t i = 0; i < block.size; ++i) {
    const float value = kHasResidual ? block.gradient[i] + block.residual[i] : block.gradient[i];
    const uint16_t word = Words::from(value * scale.up);
    block.words[i] = word;
    if constexpr (kHasResidual) {
      const float told = Words::to(word) * scale.down;
      block.residual[i] = where_finite<Vec>(value - told, told, value);
    }
  }
}

/// k such that 2^k times the largest finite magnitude is from 2^14 to 2^15.
template <class Vec, bool kHasResidual>
inline int exponent_of_block(const MessageBlock& block) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < block.size; ++i) {
    const float value = kHasResidual ? block.gradient[i] + block.residual[i] : block.gradient[i];
    const uint32_t magnitude = bits_of<Vec>(value) & 0x7fffffffu;
    const uint32_t counted = pick<Vec>(magnitude < 0x7f800000u, magnitude, 0u);
    largest = counted > largest ? counted : largest;
  }
  const int exponent = 14 - (static_cast<int>(largest >> 23) - 127);
  return exponent < 126 ? exponent : 126;
}

template <class Vec, bool kHasResidual>
inline void compress_block(const MessageBlock& block, Compression format) {
  if (format == Compression::kBF16) return round_block<Vec, BF16Words<Vec>, kHasResidual>(block, BlockScale<Vec>(0));
  const int exponent = exponent_of_block<Vec, kHasResidual>(block);
  *block.exponent = static_cast<uint16_t>(static_cast<int16_t>(exponent));
  round_block<Vec, FP16Words<Vec>, kHasResidual>(block, BlockScale<Vec>(exponent));
}

template <class Vec>
void compress(const MessageBlock& block, Compression format) {
  if (block.residual == nullptr) return compress_block<Vec, false>(block, format);
  compress_block<Vec, true>(block, format);
}

template <class Vec, class Words>
inline void add_words(float* sum, const MessageBlock& block, const BlockScale<Vec>& scale, bool is_first) {
  if (is_first) {
    for (int64_t i = 0; i < block.size; ++i) sum[i] = Words::to(block.words[i]) * scale.down;
  } else {
    for (int64_t i = 0; i < block.size; ++i) sum[i] += Words::to(block.words[i]) * scale.down;
  }
}

template <class Vec>
void add_message(float* sum, const MessageBlock& block, Compression format, bool is_first) {
  if (format == Compression::kBF16) {
    return add_words<Vec, BF16Words<Vec>>(sum, block, BlockScale<Vec>(0), is_first);
  }
  add_words<Vec, FP16Words<Vec>>(sum, block, BlockScale<Vec>(static_cast<int16_t>(*block.exponent)), is_first);
}

}  // namespace litespark::cpu
