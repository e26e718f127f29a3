// SPDX-License-Identifier: Apache-2.0
// Words that memory or a disk must give back: each depends on its place, so that a stuck bit, a flipped one and a word
// from another address all show.
#pragma once

#include <cstdint>
#include <span>

namespace litespark {

/// Words of the pattern `seed`, from its word `first` on.
void fill_pattern(std::span<uint64_t> words, uint64_t seed, uint64_t first = 0);
/// How many words differ from it.
int64_t count_damaged(std::span<const uint64_t> words, uint64_t seed, uint64_t first = 0);

}  // namespace litespark
