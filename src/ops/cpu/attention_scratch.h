// SPDX-License-Identifier: Apache-2.0
// The buffers of attention tasks, taken from a thread's piece of scratch (or counted, with an empty cursor).
#pragma once

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {

inline void take_forward_buffers(ScratchCursor& cursor, const AttentionKernels& kernels, AttentionForwardTask& task) {
  const int64_t element_bytes = kernels.bf16_elements ? 2 : 4;
  const int64_t tile_rows = int64_t{kAttentionTile} * task.head.padded_dim;
  const int64_t tile_square = int64_t{kAttentionTile} * kAttentionTile;
  task.keys_tile = cursor.take<std::byte>(tile_rows * element_bytes);
  task.values_tile = cursor.take<std::byte>(tile_rows * element_bytes);
  task.staging = cursor.take<float>(tile_rows);
  task.scores = cursor.take<float>(tile_square);
  task.weights = kernels.bf16_elements ? cursor.take<bf16>(tile_square) : static_cast<void*>(task.scores);
  task.rescale = cursor.take<float>(kAttentionTile);
  for (AttentionUnit& unit : task.units) {
    unit.queries = cursor.take<std::byte>(tile_rows * element_bytes);
    unit.sum = cursor.take<float>(tile_rows);
    unit.largest = cursor.take<float>(kAttentionTile);
    unit.total = cursor.take<float>(kAttentionTile);
  }
}

/// For ranges of at most `num_keys` keys, a multiple of the tile.
inline void take_backward_buffers(ScratchCursor& cursor, const AttentionKernels& kernels, int64_t num_keys,
                                  AttentionBackwardTask& task) {
  const int64_t element_bytes = kernels.bf16_elements ? 2 : 4;
  const int64_t key_elements = num_keys * task.head.padded_dim;
  const int64_t tile_rows = int64_t{kAttentionTile} * task.head.padded_dim;
  const int64_t tile_square = int64_t{kAttentionTile} * kAttentionTile;
  task.key_rows = cursor.take<std::byte>(key_elements * element_bytes);
  task.value_rows = cursor.take<std::byte>(key_elements * element_bytes);
  task.key_pairs = kernels.bf16_elements ? cursor.take<bf16>(key_elements) : task.key_rows;
  task.key_sums = cursor.take<float>(key_elements);
  task.value_sums = cursor.take<float>(key_elements);
  for (void** rows : {&task.query_rows, &task.query_columns, &task.dout_rows, &task.dout_columns}) {
    *rows = cursor.take<std::byte>(tile_rows * element_bytes);
  }
  task.query_sums = cursor.take<float>(tile_rows);
  task.staging = cursor.take<float>(tile_rows);
  task.scores = cursor.take<float>(tile_square);
  task.dscores = cursor.take<float>(tile_square);
  task.weights = task.scores;
  task.dweights = task.dscores;
  task.dweight_columns = task.dscores;
  if (kernels.bf16_elements) {
    task.weights = cursor.take<bf16>(tile_square);
    task.dweights = cursor.take<bf16>(tile_square);
    task.dweight_columns = cursor.take<bf16>(tile_square);
  }
  task.log_sums = cursor.take<float>(kAttentionTile);
  task.deltas = cursor.take<float>(kAttentionTile);
}

}  // namespace litespark::cpu
