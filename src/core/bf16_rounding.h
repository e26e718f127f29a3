// SPDX-License-Identifier: Apache-2.0
// Two ways to keep a weight in 16 bits besides rounding to nearest even: an fp32 value as its nearest bf16 and an exact
// 16-bit remainder, and stochastic rounding with counter-based noise.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "core/bf16.h"
#include "core/rng.h"

namespace litespark {

/// Together the 32 bits of an fp32 value: join_float gives every value back bit for bit, but for NaN, which loses the
/// low bits of its payload.
struct SplitFloat {
  bf16 weight;             ///< the nearest bf16, ties away from zero
  uint16_t remainder = 0;  ///< the low half of the fp32 bits
};

/// Ties go away from zero because to-even cannot be undone: 65,537 floats round to an even bf16 and 65,535 to an odd
/// one. Away from zero each bf16 has exactly 65,536, and the low half says by its top bit whether rounding carried.
constexpr SplitFloat split_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {{static_cast<uint16_t>((bits >> 16) | 0x40u)}, 0};
  return {{static_cast<uint16_t>((bits + 0x8000u) >> 16)}, static_cast<uint16_t>(bits)};
}

/// What split_float took apart: the remainder, read as a signed number, is what rounding moved the bits by.
constexpr float join_float(bf16 weight, uint16_t remainder) {
  const auto moved = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(remainder)));
  return std::bit_cast<float>((uint32_t{weight.bits} << 16) + moved);
}

/// One of the two neighbouring bf16 values, the upper (in magnitude) with the probability that makes the mean of many
/// roundings the value itself; `noise` is uniform. Values that are bf16 already stay; NaN stays NaN.
constexpr bf16 to_bf16_stochastic(float value, uint16_t noise) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + noise) >> 16)};
}

/// Uses of rounding noise, told apart in the third word of Philox's counter.
enum class NoiseUse : uint32_t { kMoments = 0x726f756eu, kWeights = 0x726f756fu };

/// 32 random bits for each of the elements 4 * block .. 4 * block + 3 of the flat parameters in one step. A pure
/// function of its arguments: the same for every thread count, backend and order. For kMoments the low half rounds the
/// first moment and the high half the second; for kWeights the low half rounds the weight.
constexpr std::array<uint32_t, 4> rounding_noise(uint64_t seed, uint64_t step, NoiseUse use, uint64_t block) {
  return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(step),
                     static_cast<uint32_t>(use)},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

}  // namespace litespark
