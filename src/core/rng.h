// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, the counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11).
// A value is a pure function of (seed, stream, index): no state to save, the same on every thread and device.
#pragma once

#include <array>
#include <cstdint>

namespace litespark {

__extension__ using Uint128 = unsigned __int128;

/// Ten rounds over a 128-bit counter with a 64-bit key.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

/// A named stream of random numbers: `seed` is the run's, `stream` tells uses apart (weights of one tensor, sample
/// order of one epoch, ...). Every call names its index; there is no hidden position.
class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  constexpr uint64_t bits(uint64_t index) const {
    const auto words = block(index);
    return (uint64_t{words[1]} << 32) | words[0];
  }
  /// Uniform in [0, bound), without bias worth mentioning (64-bit multiply-shift). `bound` > 0.
  constexpr uint64_t below(uint64_t index, uint64_t bound) const {
    return static_cast<uint64_t>((static_cast<Uint128>(bits(index)) * bound) >> 64);
  }
  /// Uniform in (0, 1]: 53 bits, never zero, so that its logarithm is finite.
  constexpr double uniform(uint64_t index) const { return (static_cast<double>(bits(index) >> 11) + 1.0) * 0x1.0p-53; }
  /// Standard normal (Box-Muller on the two halves of one block).
  double normal(uint64_t index) const;

 private:
  constexpr std::array<uint32_t, 4> block(uint64_t index) const {
    return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(stream_),
                       static_cast<uint32_t>(stream_ >> 32)},
                      {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  }

  uint64_t seed_;
  uint64_t stream_;
};

}  // namespace litespark
