// SPDX-License-Identifier: Apache-2.0
// Finds a block's document and tile from the offsets in device memory: no host work, so a captured graph serves any
// packing of documents. Each warp scans 32 documents at a time on its own; no shared memory, no barrier.
#pragma once

#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/heuristics/attention_tiles.h"

namespace litespark::cuda {

/// What the search needs; every thread of the warp must call with the same arguments.
struct DocumentTable {
  const int32_t* offsets = nullptr;        ///< [max_documents + 1]
  const int32_t* num_documents = nullptr;  ///< [1]
  int max_documents = 0;
  int num_tokens = 0;
  int uniform_length = 0;  ///< > 0: all documents have this length and fill the batch
};

/// The rows of document `document` in a chunk.
__device__ inline ChunkRows document_in_chunk(const DocumentTable& table, const RowChunk& chunk, int document) {
  return rows_in_chunk(chunk, table.offsets[document], table.offsets[document + 1]);
}

/// Tiles of the rows that `chunk` holds.
template <int kTile = kAttentionTile>
__device__ DocumentTileOf<kTile> find_tile(const DocumentTable& table, const RowChunk& chunk, int slot) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int documents = *table.num_documents;
  int tiles_before = 0;
  for (int first = 0; first < documents; first += kWarpSize) {
    const int document = first + lane;
    const ChunkRows rows = document < documents ? document_in_chunk(table, chunk, document) : ChunkRows{};
    int through = tiles_of<kTile>(rows.length);
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      const int left = __shfl_up_sync(kFullWarp, through, distance);
      if (lane >= distance) through += left;
    }
    const uint32_t reached = __ballot_sync(kFullWarp, slot < tiles_before + through);
    if (reached != 0) {
      const int owner = __ffs(static_cast<int>(reached)) - 1;
      const int tile = slot - tiles_before - (through - tiles_of<kTile>(rows.length));
      return {.document = first + owner,
              .tile = __shfl_sync(kFullWarp, tile, owner),
              .begin = __shfl_sync(kFullWarp, rows.begin, owner),
              .length = __shfl_sync(kFullWarp, rows.length, owner)};
    }
    tiles_before += __shfl_sync(kFullWarp, through, kWarpSize - 1);
  }
  const ChunkRows rest = rows_in_chunk(chunk, documents > 0 ? table.offsets[documents] : 0, chunk.first + chunk.length);
  return {.document = -1, .tile = slot - tiles_before, .begin = rest.begin, .length = rest.length};
}

/// Tiles of the whole batch.
template <int kTile = kAttentionTile>
__device__ DocumentTileOf<kTile> find_tile(const DocumentTable& table, int slot) {
  if (table.uniform_length > 0) return uniform_tile<kTile>(slot, table.max_documents, table.uniform_length);
  return find_tile<kTile>(table, {.length = table.num_tokens}, slot);
}

/// Document of row `row`; `document` is -1 past the last.
__device__ inline DocumentTile find_document(const DocumentTable& table, int row) {
  if (table.uniform_length > 0) {
    const int document = row / table.uniform_length;
    return {.document = document, .begin = document * table.uniform_length, .length = table.uniform_length};
  }
  const int documents = *table.num_documents;
  int low = 0;
  int high = documents;  // the first document whose end lies past `row` is in [low, high]
  while (low < high) {
    const int middle = (low + high) / 2;
    if (table.offsets[middle + 1] > row) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (low == documents) return {};
  const int begin = table.offsets[low];
  return {.document = low, .begin = begin, .length = table.offsets[low + 1] - begin};
}

}  // namespace litespark::cuda
