// SPDX-License-Identifier: Apache-2.0
#include "core/permutation.h"

#include "core/error.h"
#include "core/rng.h"

namespace litespark {
namespace {
constexpr uint32_t kRounds = 6;
}

Permutation::Permutation(uint64_t size, uint64_t seed, uint64_t stream) : size_(size), seed_(seed), stream_(stream) {
  if (size == 0 || size > (uint64_t{1} << 62))
    throw InternalError("permutation", "size out of range", size, "1 to 2^62");
  while ((uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

uint64_t Permutation::scramble(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto words = philox4x32(
        {static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32), static_cast<uint32_t>(stream_), round},
        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32) ^ static_cast<uint32_t>(stream_ >> 32)});
    const uint64_t mixed = (left ^ words[0]) & mask;
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

uint64_t Permutation::operator()(uint64_t position) const {
  if (position >= size_) throw InternalError("permutation", "position out of range", position, size_);
  uint64_t value = scramble(position);
  while (value >= size_) value = scramble(value);
  return value;
}

}  // namespace litespark
