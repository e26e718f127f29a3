// SPDX-License-Identifier: Apache-2.0
#include "core/memory_pattern.h"

namespace litespark {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of the place.
uint64_t word_at(uint64_t seed, uint64_t place) {
  uint64_t z = seed + (place + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

void fill_pattern(std::span<uint64_t> words, uint64_t seed, uint64_t first) {
  for (size_t i = 0; i < words.size(); ++i) words[i] = word_at(seed, first + i);
}

int64_t count_damaged(std::span<const uint64_t> words, uint64_t seed, uint64_t first) {
  int64_t damaged = 0;
  for (size_t i = 0; i < words.size(); ++i) damaged += words[i] != word_at(seed, first + i) ? 1 : 0;
  return damaged;
}

}  // namespace litespark
