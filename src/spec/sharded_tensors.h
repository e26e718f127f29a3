// SPDX-License-Identifier: Apache-2.0
// What holds the parameters where several ranks share the optimizer (ZeRO-1): gradients in buckets, each rank's piece
// of master, moments and remainder, and whole weights for the matmuls.
#pragma once

#include "spec/program.h"

namespace litespark {

/// What declare_flat_tensors does, where there are several ranks; fills Program::buckets and Program::shards too.
/// Sizes and offsets are the same on every rank. A layer's matrices are one bucket or several, in the order in which
/// backward finishes them: several share one as long as it is no more than 1/32 of the matrices' elements (or
/// ProgramOptions::bucket_elements), or a piece of it no more than 8 kShardAlignment.
void declare_sharded_tensors(Program& program, bool packs);

}  // namespace litespark
