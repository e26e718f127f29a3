// SPDX-License-Identifier: Apache-2.0
// Plain threads for rare, long host work (drawing weights, hashing): none waits between calls, so nothing spins beside
// the kernels' own thread pool.
#pragma once

#include <cstdint>
#include <functional>

namespace litespark {

/// Splits 0 .. count-1 into one stretch a hardware thread (at least `grain` long) and calls `body(first, end)` for
/// each, on its own thread. Returns when all are done; rethrows the first exception.
void parallel_stretches(int64_t count, int64_t grain, const std::function<void(int64_t first, int64_t end)>& body);

}  // namespace litespark
