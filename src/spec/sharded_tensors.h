// SPDX-License-Identifier: Apache-2.0
// What holds the parameters where several ranks share the optimizer (ZeRO-1): gradients in buckets, each rank's piece
// of master, moments and remainder, and whole weights for the matmuls.
#pragma once

#include "spec/program.h"

namespace litespark {

/// What declare_flat_tensors does, where there are several ranks; fills Program::buckets and Program::shards too.
/// Sizes and offsets are the same on every rank.
void declare_sharded_tensors(Program& program, bool packs);

}  // namespace litespark
