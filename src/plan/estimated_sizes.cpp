// SPDX-License-Identifier: Apache-2.0
#include "plan/estimated_sizes.h"

namespace litespark {
namespace {

/// What cuBLASLt's documentation recommends for Hopper: 32 MiB.
constexpr int64_t kMatmulWorkspaceBytes = int64_t{32} << 20;

}  // namespace

bool EstimatedGpuSizes::packs_weights(DType) const {
  return false;
}

int64_t EstimatedGpuSizes::packed_bytes(const LinearShape& shape, op::PackForm) const {
  return shape.in_features * shape.out_features * dtype_bytes(shape.compute);
}

int64_t EstimatedGpuSizes::matmul_forward_scratch_bytes(const LinearShape&) const {
  return kMatmulWorkspaceBytes;
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
                                                            DType) const {
  const int64_t rows = num_tokens * shape.num_heads;
  return rows * (shape.head_dim + 1) * dtype_bytes(DType::kF32);
}

}  // namespace litespark
