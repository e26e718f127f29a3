// SPDX-License-Identifier: Apache-2.0
// Matmuls and packed weights of the CPU backend, and the sizes that only the library behind them knows. The library
// itself (oneDNN) is seen by onednn.cpp alone.
#pragma once

#include <memory>

#include "core/backend_sizes.h"
#include "core/op/all.h"
#include "core/tensor.h"
#include "ops/cpu/cpu_backend_impl.h"

namespace litespark::cpu {

class Onednn;

/// Chooses, for each matmul, the primitive, the blocking over threads and the element type the sums run in.
/// bf16 tensors are multiplied natively where the processor can; elsewhere blocks of rows are converted to f32 in
/// scratch, so that results equal exact products of the bf16 inputs summed in f32 either way.
class MatmulLibrary final : public BackendSizes {
 public:
  MatmulLibrary(int threads, CpuIsa isa);
  ~MatmulLibrary() override;

  bool exact() const override { return true; }
  bool packs_weights(DType compute) const override;
  int64_t packed_bytes(const LinearShape& shape, op::PackForm form) const override;
  int64_t matmul_forward_scratch_bytes(const LinearShape& shape) const override;
  int64_t matmul_backward_input_scratch_bytes(const LinearShape& shape) const override;
  int64_t matmul_backward_weight_scratch_bytes(const LinearShape& shape) const override;
  int64_t attention_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                          DType compute) const override;
  int64_t attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                           DType compute) const override;

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
  int threads_ = 1;
  CpuIsa isa_ = CpuIsa::kGeneric;
  std::unique_ptr<Onednn> onednn_;
};

/// `threads` is fixed for the library's life: primitives are made for it.
std::unique_ptr<MatmulLibrary, MatmulLibraryDeleter> make_matmul_library(int threads, CpuIsa isa);

}  // namespace litespark::cpu
