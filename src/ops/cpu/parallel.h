// SPDX-License-Identifier: Apache-2.0
// The one way CPU ops use threads: blocks of a fixed size, each run by exactly one thread. What a block computes never
// depends on the number of threads, so neither do the results.
#pragma once

#include <cstdint>

#include "core/checked.h"

namespace litespark::cpu {

/// Calls body(block) for block = 0 .. num_blocks - 1, spread statically over the threads. `body` must not throw.
template <class Body>
void parallel_blocks(int threads, int64_t num_blocks, const Body& body) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1 && num_blocks > 1)
  for (int64_t block = 0; block < num_blocks; ++block) body(block);
}

/// Splits [0, size) into blocks of `block_size` and calls body(begin, end) for each.
template <class Body>
void parallel_ranges(int threads, int64_t size, int64_t block_size, const Body& body) {
  parallel_blocks(threads, ceil_div(size, block_size), [&](int64_t block) {
    const int64_t begin = block * block_size;
    const int64_t end = begin + block_size < size ? begin + block_size : size;
    body(begin, end);
  });
}

}  // namespace litespark::cpu
