// SPDX-License-Identifier: Apache-2.0
// Library sizes for a device whose backend is not linked: good enough to plan with, and marked as estimates wherever
// they are shown.
#pragma once

#include "core/backend_sizes.h"

namespace litespark {

/// An H200's libraries: no packed copies, a fixed matmul workspace, and in attention's backward what the kernel that
/// the backend would choose asks for: the plans of cuDNN 9.19, our Hopper kernel's sums, or one number a query row.
class EstimatedGpuSizes final : public BackendSizes {
 public:
  /// `deterministic`: the gradient of the queries is summed in a fixed order, for bytes that grow with the square of
  /// the documents' length.
  explicit EstimatedGpuSizes(bool deterministic) : deterministic_(deterministic) {}

  bool exact() const override { return false; }
  bool stages_batches() const override { return true; }
  int64_t preferred_head_chunk_rows(int64_t vocab_size) const override { return gpu_head_chunk_rows(vocab_size); }
  int64_t beyond_plan_bytes() const override { return gpu_beyond_plan_bytes(true); }
  bool packs_weights(DType compute) const override;
  int64_t packed_bytes(const LinearShape& shape, op::PackForm form) const override;
  Fp8Support fp8_support() const override { return Fp8Support::kNative; }
  Fp8Support fp8_attention_support(const op::AttentionShape& shape) const override {
    return gpu_has_fp8_attention(shape) ? Fp8Support::kNative : Fp8Support::kNone;
  }
  bool joins_swiglu(DType compute, int64_t hidden, int64_t intermediate) const override {
    return gpu_joins_swiglu(compute, hidden, intermediate);
  }
  int64_t scaled_matmul_scratch_bytes(int64_t columns, bool has_bias) const override;
  int64_t matmul_forward_scratch_bytes(const LinearShape& shape) const override;
  int64_t matmul_backward_input_scratch_bytes(const LinearShape& shape) const override;
  int64_t matmul_backward_weight_scratch_bytes(const LinearShape& shape) const override;
  int64_t attention_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                          DType compute) const override;
  int64_t attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                           DType compute) const override;
  int64_t attention_part_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                                DType compute) const override;

 private:
  bool deterministic_;
};

}  // namespace litespark
