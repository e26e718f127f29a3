// SPDX-License-Identifier: Apache-2.0
// What attention.cpp hands to the tile kernels of an instruction set: plain pointers and sizes. The kernels own no
// memory and start no threads.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark::cpu {

/// Queries and keys are taken in tiles of this many rows, counted from the start of their document.
inline constexpr int kAttentionTile = 64;
/// Padded head dimensions are multiples of this: two bf16 to a lane, sixteen lanes.
inline constexpr int kAttentionDimStep = 32;
/// Query tiles, over all heads of a group, that share one packing of a key tile.
inline constexpr int kAttentionMaxUnits = 8;

/// A matrix of heads in memory: element d of row i is `data[i * stride + d]`, in the tensors' dtype.
struct AttentionRows {
  const void* data = nullptr;
  int64_t stride = 0;
};
struct AttentionOutputRows {
  void* data = nullptr;
  int64_t stride = 0;
};

/// The same in f32, whatever the tensors hold: sums to which a task adds its share.
struct AttentionSumRows {
  float* data = nullptr;
  int64_t stride = 0;
};

struct AttentionHead {
  int dim = 0;
  int padded_dim = 0;  ///< multiple of kAttentionDimStep
  int window = 0;
  float scale = 0;
};

/// State of one query tile of one head: `elements` means f32 or bf16, as the kernel packs its operands; room for f32.
struct AttentionUnit {
  void* queries = nullptr;   ///< [padded_dim, tile] elements: a lane is a query
  float* sum = nullptr;      ///< [padded_dim, tile]: weighted values
  float* largest = nullptr;  ///< [tile]
  float* total = nullptr;    ///< [tile]
};

/// Queries [first_position, first_position + num_queries) of one document, of `group` heads that share keys. Positions
/// count from the first key.
struct AttentionForwardTask {
  AttentionHead head;
  AttentionRows queries;         ///< row 0 is the first query; head g starts g * dim further on
  AttentionRows keys, values;    ///< row 0 is position 0
  AttentionOutputRows out;       ///< as `queries`; used when `merged` has none
  AttentionSumRows merged;       ///< as `out`: with log_sum_exp the attention to other keys, which these are added to
  float* log_sum_exp = nullptr;  ///< of the first query; head g is log_sum_exp_stride * g further on; may be null
  int64_t log_sum_exp_stride = 0;
  const float* slopes = nullptr;                ///< ALiBi's, of each head that shares the keys; null: none
  int64_t first_position = 0, num_queries = 0;  ///< ceil(num_queries / tile) * group <= kAttentionMaxUnits
  int64_t num_keys = INT64_MAX;                 ///< where the document's keys end before its queries do
  int group = 1;
  const uint16_t* heads = nullptr;  ///< [group]: which heads; null: the first ones

  // Scratch of the calling thread.
  void* keys_tile = nullptr;    ///< [tile, padded_dim] elements
  void* values_tile = nullptr;  ///< the same; on a matrix unit [padded_dim, tile]
  void* staging = nullptr;      ///< [tile, padded_dim] f32
  float* scores = nullptr;      ///< [tile, tile]
  void* weights = nullptr;      ///< [tile, tile] elements; may be `scores` where elements are f32
  float* rescale = nullptr;     ///< [tile]
  AttentionUnit units[kAttentionMaxUnits];
};

/// Gradients of keys [key_begin, key_end) of one document and key head, and what they add to the query gradients.
struct AttentionBackwardTask {
  AttentionHead head;
  AttentionRows queries, keys, values, out, dout;  ///< row 0 is the document's first here; heads of the group as above
  AttentionOutputRows dkeys, dvalues;              ///< used when the next two have none
  AttentionSumRows dkey_sums, dvalue_sums;
  AttentionOutputRows dqueries;  ///< used when `partial` is null
  float* partial = nullptr;      ///< f32 instead, same rows, stride partial_stride
  int64_t partial_stride = 0;
  const float* log_sum_exp = nullptr;
  int64_t log_sum_exp_stride = 0;
  const float* slopes = nullptr;           ///< ALiBi's, of each head of the group; null: none
  int64_t length = 0;                      ///< rows of queries there are
  int64_t key_begin = 0, key_end = 0;      ///< key_begin is a multiple of the tile
  int64_t query_begin = 0, query_end = 0;  ///< rows of queries that see some of the keys
  int64_t query_offset = 0;                ///< position of row 0 of the queries, counted from row 0 of the keys
  int group = 1;
  const uint16_t* heads = nullptr;  ///< [group]: which heads; null: the first ones

  // Scratch of the calling thread; "keys" counts key_end - key_begin rounded up to whole tiles.
  void* key_rows = nullptr;     ///< [keys, padded_dim] elements
  void* value_rows = nullptr;   ///< the same
  void* key_pairs = nullptr;    ///< the same, pairs of rows interleaved (on a matrix unit tiles [padded_dim, tile]);
                                ///< `key_rows` where elements are f32
  float* key_sums = nullptr;    ///< [keys, padded_dim]: gradient before scaling
  float* value_sums = nullptr;  ///< the same
  void* query_rows = nullptr;   ///< [tile, padded_dim] elements, and the next three as well
  void* query_columns = nullptr;
  void* dout_rows = nullptr;
  void* dout_columns = nullptr;
  float* query_sums = nullptr;  ///< [padded_dim, tile]
  void* staging = nullptr;      ///< [tile, padded_dim] f32
  float* scores = nullptr;      ///< [tile, tile], and the next one as well
  float* dscores = nullptr;
  void* weights = nullptr;          ///< [tile, tile] elements; `scores` where elements are f32
  void* dweights = nullptr;         ///< [tile, tile] elements; `dscores` where elements are f32
  void* dweight_columns = nullptr;  ///< the same, pairs of rows interleaved; `dscores` where elements are f32
  float* log_sums = nullptr;        ///< [tile]
  float* deltas = nullptr;          ///< [tile]
};

/// Largest padded head dimension of AttentionRowTask.
inline constexpr int kAttentionMaxRowDim = 1024;

/// One query row against keys [first, last] of its document, for generation.
struct AttentionRowTask {
  AttentionHead head;
  const void* query = nullptr;
  AttentionRows keys, values;
  void* out = nullptr;
  int64_t first = 0, last = 0;
  float slope = 0;  ///< ALiBi's
};

struct AttentionKernels {
  void (*forward)(const AttentionForwardTask& task) = nullptr;
  void (*backward)(const AttentionBackwardTask& task) = nullptr;
  void (*row)(const AttentionRowTask& task) = nullptr;
  bool bf16_elements = false;  ///< operands are packed as bf16
};

AttentionKernels attention_kernels_generic(DType dtype);
AttentionKernels attention_kernels_avx2(DType dtype);
AttentionKernels attention_kernels_avx512(DType dtype);
/// bf16 only.
AttentionKernels attention_kernels_avx512bf16();
AttentionKernels attention_kernels_amx();

/// The best of the above for a processor.
AttentionKernels attention_kernels(CpuIsa isa, DType dtype);

}  // namespace litespark::cpu
