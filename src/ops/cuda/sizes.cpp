// SPDX-License-Identifier: Apache-2.0
// BackendSizes as the linked libraries state them: a fixed cuBLASLt workspace a matmul, what attention's plans ask for.
#include "core/backend_sizes.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/attention_fp8.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/gated_product.h"
#include "ops/cuda/matmul.h"

namespace litespark::cuda {
namespace {

/// Ada; Hopper is 90.
constexpr int kFirstWithFp8 = 89;

class CudaSizes final : public BackendSizes {
 public:
  CudaSizes(const DeviceContext& context, AttentionLibrary& attention)
      : context_(context), has_fp8_(context.compute_capability >= kFirstWithFp8), attention_(attention) {}

  bool exact() const override { return true; }
  int64_t preferred_head_chunk_rows(int64_t vocab_size) const override { return gpu_head_chunk_rows(vocab_size); }
  int64_t beyond_plan_bytes() const override { return gpu_beyond_plan_bytes(attention_.has_cudnn()); }
  bool packs_weights(DType) const override { return false; }
  bool stages_batches() const override { return true; }
  int64_t packed_bytes(const LinearShape&, op::PackForm) const override { return 0; }

  Fp8Support fp8_support() const override { return has_fp8_ ? Fp8Support::kNative : Fp8Support::kNone; }
  Fp8Support fp8_attention_support(const op::AttentionShape& shape) const override {
    return has_fp8_forward(shape, context_) ? Fp8Support::kNative : Fp8Support::kNone;
  }
  int64_t scaled_matmul_scratch_bytes(int64_t columns, bool has_bias) const override {
    return kMatmulWorkspaceBytes +
           bias_copy_bytes(
               {.kind = MatmulKind::kScaled, .out_features = columns, .has_bias = has_bias, .output = DType::kBF16});
  }
  bool joins_swiglu(DType compute, int64_t hidden, int64_t intermediate) const override {
    return context_.kernels.swiglu_in_products && has_gated_product(compute, hidden, intermediate, context_);
  }
  int64_t matmul_forward_scratch_bytes(const LinearShape& shape) const override {
    return kMatmulWorkspaceBytes + bias_copy_bytes({.kind = MatmulKind::kForward,
                                                    .rows = shape.rows,
                                                    .in_features = shape.in_features,
                                                    .out_features = shape.out_features,
                                                    .compute = shape.compute,
                                                    .has_bias = shape.has_bias});
  }
  int64_t matmul_backward_input_scratch_bytes(const LinearShape&) const override { return kMatmulWorkspaceBytes; }
  int64_t matmul_backward_weight_scratch_bytes(const LinearShape&) const override { return kMatmulWorkspaceBytes; }

  int64_t attention_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                          DType compute) const override {
    return attention_.scratch_bytes(shape, num_tokens, compute, false);
  }
  int64_t attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                           DType compute) const override {
    return attention_.scratch_bytes(shape, num_tokens, compute, true);
  }
  int64_t attention_part_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                               DType compute) const override {
    return attention_.part_scratch_bytes(shape, num_rows, compute, false);
  }
  int64_t attention_part_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                                DType compute) const override {
    return attention_.part_scratch_bytes(shape, num_rows, compute, true);
  }

 private:
  const DeviceContext& context_;
  bool has_fp8_;
  AttentionLibrary& attention_;
};

}  // namespace

std::unique_ptr<BackendSizes> make_cuda_sizes(const DeviceContext& context, AttentionLibrary& attention) {
  return std::make_unique<CudaSizes>(context, attention);
}

}  // namespace litespark::cuda
