// SPDX-License-Identifier: Apache-2.0
// What backward computes again instead of keeping: a choice of the run file, carried out by the program's tapes.
#pragma once

#include <cstdint>

namespace litespark {

enum class Recompute : uint8_t { kNone, kNormAct, kAttention, kKeepAttention, kBlock, kEveryK };

}  // namespace litespark
