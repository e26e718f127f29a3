// SPDX-License-Identifier: Apache-2.0
// Matmuls and packed weights of the CPU backend, and the sizes that only the library behind them knows. The library
// itself (oneDNN) is seen by onednn.cpp alone.
#pragma once

#include <memory>
#include <optional>

#include "core/backend_sizes.h"
#include "core/op/all.h"
#include "core/tensor.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/weight_gradient_kernels.h"

namespace litespark::cpu {

/// One of y = x w^T and dx = dy w: rows of a source times a weight that all rows share.
struct RowProduct {
  int64_t rows = 0, n = 0, k = 0;
  DType source = DType::kF32;
  DType destination = DType::kF32;
  WeightLayout layout = WeightLayout::kTransposed;
  bool weights_packed = false;  ///< weights hold the element type that the product runs in
  bool has_bias = false;
  bool accumulate = false;
};

/// Resident bytes of a training process beside its plan: code, oneDNN and its kernels, loader, heap. A prediction; a
/// run measures its own and prints it beside this.
constexpr int64_t kProcessBytes = int64_t{32} << 20;

/// Chooses, for each matmul, the primitive, the blocking over threads and the element type the sums run in.
///
/// Rows are cut into blocks whose size depends on the shape alone and each block is one single-threaded product, so
/// that results do not depend on the number of threads. bf16 tensors are multiplied natively where the processor can;
/// elsewhere each block is converted to f32 in the thread's scratch, which gives the same exact products of bf16
/// values summed in f32. Packed copies for that second case hold f32 values that were rounded to bf16.
class MatmulLibrary final : public BackendSizes {
 public:
  MatmulLibrary(int threads, CpuIsa isa);

  bool exact() const override { return true; }
  int64_t beyond_plan_bytes() const override { return kProcessBytes; }
  bool packs_weights(DType compute) const override;
  int64_t packed_bytes(const LinearShape& shape, op::PackForm form) const override;
  int64_t matmul_forward_scratch_bytes(const LinearShape& shape) const override;
  int64_t matmul_backward_input_scratch_bytes(const LinearShape& shape) const override;
  int64_t matmul_backward_weight_scratch_bytes(const LinearShape& shape) const override;
  int64_t attention_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                          DType compute) const override;
  int64_t attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                           DType compute) const override;
  int64_t attention_part_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                               DType compute) const override;
  int64_t attention_part_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                                DType compute) const override;

  /// Whether bf16 tensors are multiplied as they are.
  bool native_bf16() const { return native_bf16_; }

  /// Makes the primitives that run() of the same op will look up.
  void prepare(const op::MatmulForward<Tensor>& op);
  void prepare(const op::MatmulBackwardInput<Tensor>& op);
  void prepare(const op::MatmulBackwardWeight<Tensor>& op);
  void prepare(const op::PackWeight<Tensor>& op);

  void run(const op::MatmulForward<Tensor>& op);
  void run(const op::MatmulBackwardInput<Tensor>& op);
  void run(const op::MatmulBackwardWeight<Tensor>& op);
  void run(const op::PackWeight<Tensor>& op);

 private:
  struct RowPlan;
  struct PackPlan;
  struct RowCall;
  struct SlicePlan;
  struct SliceCall;

  DType element_type(DType compute) const;
  /// What PackWeight writes: the library's blocks where it has such, else the rows of the weight as they are.
  WeightLayout packed_layout(DType compute, op::PackForm form) const;
  RowProduct forward_product(const LinearShape& shape) const;
  RowProduct backward_product(const LinearShape& shape) const;
  RowProduct product_of(const op::MatmulForward<Tensor>& op) const;
  RowProduct product_of(const op::MatmulBackwardInput<Tensor>& op) const;
  RowPlan plan_rows(const RowProduct& product) const;
  SlicePlan plan_slices(int64_t tokens, int64_t outputs, int64_t inputs, DType dtype) const;
  int64_t row_scratch_bytes(RowProduct product) const;
  /// Our own kernels for dW, where they are faster than the library.
  std::optional<PanelKernels> weight_gradient_kernels(DType dtype) const;
  int64_t panel_scratch_bytes(const LinearShape& shape, const PanelKernels& kernels) const;
  void run_panels(const op::MatmulBackwardWeight<Tensor>& op, const PanelKernels& kernels, float* gradient,
                  std::byte* scratch) const;
  void run_slices(const op::MatmulBackwardWeight<Tensor>& op, float* gradient, std::byte* scratch);
  PackPlan plan_pack(const op::PackWeight<Tensor>& op) const;
  void pack_blocks(const PackPlan& plan, const float* weight, void* packed) const;
  void prepare_rows(const RowProduct& product, const void* packed);
  void run_rows(const RowProduct& product, const GemmPointers& pointers, const Tensor& scratch);

  int threads_ = 1;
  CpuIsa isa_ = CpuIsa::kGeneric;
  mutable Onednn onednn_;  ///< mutable: answers about sizes are remembered
  bool native_bf16_ = false;
};

/// `threads` is fixed for the library's life: primitives are made for it.
std::unique_ptr<MatmulLibrary, MatmulLibraryDeleter> make_matmul_library(int threads, CpuIsa isa);

}  // namespace litespark::cpu
