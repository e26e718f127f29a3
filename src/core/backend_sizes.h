// SPDX-License-Identifier: Apache-2.0
// Sizes that only a library knows: packed weight copies and scratchpads. The planner asks through this interface and
// never sees a backend; `exact()` tells whether the answers come from the linked library or from an estimate.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/op/attention.h"
#include "core/op/matmul.h"

namespace litespark {

/// For a GPU of a hundred and more multiprocessors: logits of about a gibibyte in bf16, 1,024 to 8,192 rows.
constexpr int64_t gpu_head_chunk_rows(int64_t vocab_size) {
  int64_t rows = 8192;
  while (rows > 1024 && rows * vocab_size > (int64_t{1} << 29) + (int64_t{1} << 27)) rows /= 2;
  return rows;
}

/// Whether our Hopper kernel, rather than cuDNN's, computes attention's gradient for documents of one length (bf16):
/// wherever there is one. Measured on one H200, bench/results/2026-12-01-h200-attention.txt and -attention-heads.txt.
constexpr bool gpu_prefers_own_attention_gradient(const op::AttentionShape& shape) {
  return shape.head_dim == 64 || shape.head_dim == 96 || shape.head_dim == 128;
}

/// Whether there is a Hopper kernel of attention's forward on 8-bit floats. Heads of 64 are bound by exponentials,
/// which cost what they cost in bf16.
constexpr bool gpu_has_fp8_attention(const op::AttentionShape& shape) {
  return shape.head_dim == 128 && !shape.has_alibi;
}

/// Whether tapes for a Hopper GPU have SwiGLU inside the MLP's products: where there is a kernel for it. Which of both
/// ways runs is timed before the first step, and changes neither memory nor results.
constexpr bool gpu_joins_swiglu(DType compute, int64_t hidden, int64_t intermediate) {
  constexpr int64_t kVector = 8;  // bf16 of 16 bytes
  return compute == DType::kBF16 && hidden % kVector == 0 && intermediate % kVector == 0;
}

/// What a GPU's driver and libraries hold beside the plan once a run is under way: context, kernels, handles, recorded
/// graphs. Predictions, and the only place for them; a run measures its own and prints it beside them. With cuDNN, from
/// bench/results/2026-11-29-h200-train.json: in eight cases of four models the board held 1,159 to 1,162 MiB beside the
/// plan, of which the driver of an H200 keeps 606 whoever uses it (143,771 MiB on the board, 139.81 GiB for programs).
/// Without cuDNN: an estimate.
constexpr int64_t gpu_beyond_plan_bytes(bool has_cudnn) {
  return int64_t{has_cudnn ? 555 : 450} << 20;
}

/// One linear layer: y [rows, out] = x [rows, in] w^T.
struct LinearShape {
  int64_t rows = 0;
  int64_t in_features = 0;
  int64_t out_features = 0;
  DType compute = DType::kF32;
  bool has_bias = false;
  bool weights_packed = false;
  DType gradient = DType::kF32;  ///< of the weight's gradient
};

/// What a backend does with 8-bit matmuls, and with attention's forward on 8-bit floats.
enum class Fp8Support : uint8_t {
  kNone,
  kEmulated,  ///< the same codes, decoded to f32: right and slow, for tests
  kNative,
};

class BackendSizes {
 public:
  virtual ~BackendSizes() = default;

  /// False: estimates, to be marked so wherever they are shown.
  virtual bool exact() const = 0;
  /// Whether matmuls of this backend want PackWeight copies at all.
  virtual bool packs_weights(DType compute) const = 0;
  /// Of one packed copy; depends on the features and the dtype, not on `shape.rows`.
  virtual int64_t packed_bytes(const LinearShape& shape, op::PackForm form) const = 0;
  /// What the device holds beside the plan in the steady state; a prediction whatever exact() says.
  virtual int64_t beyond_plan_bytes() const { return 0; }
  /// Rows of logits at a time when nobody asks for a number: enough to keep this device's matmul busy with `vocab_size`
  /// columns, few enough to stay a small part of the plan.
  virtual int64_t preferred_head_chunk_rows(int64_t /*vocab_size*/) const { return 512; }
  /// Whether batches travel into staging blocks beside the ops (Backend::make_staged_upload).
  virtual bool stages_batches() const { return false; }
  virtual Fp8Support fp8_support() const { return Fp8Support::kEmulated; }
  virtual Fp8Support fp8_attention_support(const op::AttentionShape& /*shape*/) const { return Fp8Support::kEmulated; }
  /// Of one ScaledMatmul of `columns` outputs.
  virtual int64_t scaled_matmul_scratch_bytes(int64_t /*columns*/, bool /*has_bias*/) const { return 0; }
  /// Whether the MLP's products shall be GatedForward and GatedBackward, which stand for two ops each.
  virtual bool joins_swiglu(DType /*compute*/, int64_t /*hidden*/, int64_t /*intermediate*/) const { return false; }
  virtual int64_t matmul_forward_scratch_bytes(const LinearShape& shape) const = 0;
  virtual int64_t matmul_backward_input_scratch_bytes(const LinearShape& shape) const = 0;
  virtual int64_t matmul_backward_weight_scratch_bytes(const LinearShape& shape) const = 0;
  /// For `num_tokens` rows of packed q, k, v.
  virtual int64_t attention_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                                  DType compute) const = 0;
  virtual int64_t attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                                   DType compute) const = 0;
  /// Whether there are kernels for what context ranks share: the parts of attention, columns on their way.
  virtual bool has_attention_parts() const { return true; }
  /// For `num_rows` of a context rank. Default: as for attention over so many rows.
  virtual int64_t attention_part_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                                       DType compute) const {
    return attention_forward_scratch_bytes(shape, num_rows, compute);
  }
  virtual int64_t attention_part_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                                        DType compute) const {
    return attention_backward_scratch_bytes(shape, num_rows, compute);
  }
};

}  // namespace litespark
