// SPDX-License-Identifier: Apache-2.0
// Flips of one bit in what one op of a micro-batch wrote, and what the corruption check makes of them.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace litespark {

struct FlipCounts {
  int64_t planted = 0;
  int64_t effective = 0;  ///< the loss or a gradient came out with other bits; the rest died out on the way
  int64_t detected = 0;   ///< the check refused the step
  int64_t false_alarms = 0;
  int64_t missed = 0;
};

/// `trials` flips, in random ops, outputs, elements and bits of the first or of the second run of the micro-batch.
/// Whether one was effective is told by comparing all gradients, not by their checksums.
FlipCounts run_flip_trials(DType compute, int64_t trials, uint64_t seed);

}  // namespace litespark
