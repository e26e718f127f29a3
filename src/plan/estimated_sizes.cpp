// SPDX-License-Identifier: Apache-2.0
#include "plan/estimated_sizes.h"

#include "core/checked.h"

namespace litespark {
namespace {

/// What cuBLASLt's documentation recommends for Hopper: 32 MiB.
constexpr int64_t kMatmulWorkspaceBytes = int64_t{32} << 20;
/// An eighth of an H200's memory: plans that want more are not used.
constexpr int64_t kMaxAttentionBytes = int64_t{143771} << 17;
/// Tiles that the deterministic plan rounds queries and keys up to.
constexpr int64_t kQueryTile = 64;
constexpr int64_t kKeyTile = 128;

bool runs_own_gradient(const op::AttentionShape& shape, DType compute) {
  return compute == DType::kBF16 && !shape.has_alibi && gpu_prefers_own_attention_gradient(shape);
}

/// Sums of dQ, and two numbers a query row.
int64_t own_gradient_bytes(const op::AttentionShape& shape, int64_t num_rows) {
  return round_up(num_rows * shape.num_heads * 4 * (shape.head_dim + 2), 256);
}

}  // namespace

bool EstimatedGpuSizes::packs_weights(DType) const {
  return false;
}

int64_t EstimatedGpuSizes::packed_bytes(const LinearShape& shape, op::PackForm) const {
  return shape.in_features * shape.out_features * dtype_bytes(shape.compute);
}

int64_t EstimatedGpuSizes::matmul_forward_scratch_bytes(const LinearShape& shape) const {
  // The bf16 epilogue takes the bias in bf16, copied to the front of the scratch.
  const bool copies_bias = shape.has_bias && shape.compute == DType::kBF16;
  return kMatmulWorkspaceBytes + (copies_bias ? round_up(2 * shape.out_features, 256) : 0);
}

int64_t EstimatedGpuSizes::scaled_matmul_scratch_bytes(int64_t columns, bool has_bias) const {
  return matmul_forward_scratch_bytes({.out_features = columns, .compute = DType::kBF16, .has_bias = has_bias});
}

int64_t EstimatedGpuSizes::matmul_backward_input_scratch_bytes(const LinearShape&) const {
  return kMatmulWorkspaceBytes;
}

int64_t EstimatedGpuSizes::matmul_backward_weight_scratch_bytes(const LinearShape&) const {
  return kMatmulWorkspaceBytes;
}

int64_t EstimatedGpuSizes::attention_forward_scratch_bytes(const op::AttentionShape&, int64_t, DType) const {
  return 0;
}

int64_t EstimatedGpuSizes::attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                                            DType compute) const {
  const int64_t row_sums = num_tokens * shape.num_heads * 4;
  const int64_t portable = round_up(row_sums, 256);
  if (runs_own_gradient(shape, compute)) return own_gradient_bytes(shape, num_tokens);
  if (compute != DType::kBF16 || shape.has_alibi || !shape.uniform) return portable;
  const int64_t query_sums = row_sums * shape.head_dim;
  const int64_t grouped = shape.num_heads == shape.num_kv_heads ? 0 : query_sums;
  if (!deterministic_) return query_sums + row_sums + grouped;
  const int64_t pairs = round_up(shape.max_length, kQueryTile) * round_up(shape.max_length, kKeyTile);
  const int64_t ordered = 2 * pairs * shape.max_documents * shape.num_heads + row_sums + grouped;
  return ordered <= kMaxAttentionBytes ? ordered : portable;
}

int64_t EstimatedGpuSizes::attention_part_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                                                 DType compute) const {
  if (runs_own_gradient(shape, compute)) return own_gradient_bytes(shape, num_rows);
  return round_up(num_rows * shape.num_heads * 4, 256);
}

}  // namespace litespark
