// SPDX-License-Identifier: Apache-2.0
// The little that a communicator computes on a GPU by itself.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "dist/communicator.h"

namespace litespark::dist {

/// Pieces of one stretch from all ranks: this rank's own at its place, the others' one after another.
struct RankPieces {
  const void* own = nullptr;
  const std::byte* others = nullptr;
  int rank = 0;
  int size = 1;
  int64_t num_elements = 0;  ///< of a piece
};

/// out = the reduction of the pieces in rank order, bf16 in f32 and rounded once; a NaN wins. `out` may be `own`.
/// Throws InternalError for dtypes that are not reduced.
void launch_reduce_in_order(void* out, const RankPieces& pieces, DType dtype, Reduction reduction, cudaStream_t stream);

/// *word = value, seen by the host when all before it on the stream is done. `word` is page-locked host memory.
void launch_mark(uint64_t* word, uint64_t value, cudaStream_t stream);

}  // namespace litespark::dist
