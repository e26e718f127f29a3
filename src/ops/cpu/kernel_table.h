// SPDX-License-Identifier: Apache-2.0
// The row kernels of all ops but matmul and attention, once an instruction set, behind plain pointers. AVX2 and AVX-512
// give the same bits; generic differs where they use a fused multiply-add.
#pragma once

#include <cstdint>

#include "core/bf16.h"
#include "core/compression.h"
#include "core/dtype.h"
#include "core/op/optimizer.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark::cpu {

/// One row of RmsNormForward. `delta` and `sum` may be null.
struct NormForwardRow {
  const void* x;      ///< residual dtype
  const void* delta;  ///< compute dtype
  void* sum;          ///< residual dtype
  void* y;            ///< compute dtype
  const float* weight;
  int64_t size;
  float eps;
};

/// One row of RmsNormBackward. `dresidual_cast` may be null; `dresidual` may be `dy`.
struct NormBackwardRow {
  void* dresidual;       ///< residual dtype; added to unless `first`
  void* dresidual_cast;  ///< compute dtype
  float* dweight;        ///< added to
  const void* dy;        ///< compute dtype
  const void* x;         ///< residual dtype
  const float* weight;
  int64_t size;
  float rstd;
  bool first;
};

struct SwiGluForwardRow {
  void* h;
  const void* gate;
  const void* up;
  int64_t size;
};

/// The outputs may be the inputs of the same name.
struct SwiGluBackwardRow {
  void* dgate;
  void* dup;
  const void* dh;
  const void* gate;
  const void* up;
  int64_t size;
};

/// The rotated heads of one token, in place.
struct RopeRow {
  void* heads;
  const float* angles;  ///< dim / 2 cosines, then as many sines
  int64_t num_heads;
  int64_t dim;
  float direction;  ///< 1, or -1 to rotate back
};

/// exp(logit - maximum) summed over a row.
struct SoftmaxStatistics {
  float maximum;
  double sum;
};

/// logits[v] = exp(logits[v] - maximum) * scale, less 1 at the label; -1: the label is not among them.
struct SoftmaxGradientRow {
  void* logits;
  int64_t size;
  int64_t label;
  float maximum;
  float scale;
};

/// A stretch of AdamW with every scalar already combined and rounded once. `weight` may be null beside a master.
struct AdamWPart {
  float* master;
  void* first_moment;   ///< f32 or bf16
  void* second_moment;  ///< the same
  bf16* weight;
  uint16_t* remainder;
  const void* gradient;  ///< f32 or bf16
  int64_t size;
  uint64_t seed;
  uint64_t noise_step;
  int64_t first_element;  ///< of the stretch among the flat parameters, a multiple of 4
  float gradient_scale;
  float beta1, new1;              ///< beta1, 1 - beta1
  float beta2, new2;              ///< beta2, 1 - beta2
  float inverse_root_correction;  ///< 1 / sqrt(bias_correction2)
  float eps;
  float step;   ///< learning rate / bias_correction1
  float decay;  ///< 1 - learning rate * weight decay
};

inline constexpr int kPackColumns = 64;
/// Rows (f32), or pairs of rows (bf16), of one block.
inline constexpr int kPackSteps = 16;

/// A block of a weight B [k, n] to be packed: 64 columns from `from` on, 16 rows of f32 or 32 of bf16, into
/// [16, 64] floats or [16, 64, 2] bf16. `stride` leads from row to row, or from column to column where B lies
/// transposed.
struct PackBlock {
  const float* from;
  int64_t stride;
  int rows;     ///< that are there; the others become zero
  int columns;  ///< the same
  void* to;
};

/// At most kMessageBlock elements of a message.
struct MessageBlock {
  uint16_t* words;        ///< [size]
  uint16_t* exponent;     ///< k as i16, where the format has it
  const float* gradient;  ///< only where the message is written
  float* residual;        ///< the same; may be null
  int64_t size;
};

/// Arrays are indexed by dtype: 0 for f32, 1 for bf16 (`index_of`). With two indices: residual, then compute dtype.
struct KernelTable {
  void (*convert[2][2])(const void* from, void* to, int64_t size);
  void (*add[2])(float* to, const void* from, int64_t size);
  float (*norm_forward[2][2])(const NormForwardRow& row);  ///< returns 1 / root mean square
  void (*norm_backward[2][2])(const NormBackwardRow& row);
  void (*swiglu_forward[2])(const SwiGluForwardRow& row);
  void (*swiglu_backward[2])(const SwiGluBackwardRow& row);
  void (*rope[2])(const RopeRow& row);
  /// Halves as floats, exact.
  void (*widen)(const fp16* from, float* to, int64_t size);
  SoftmaxStatistics (*softmax_statistics[2])(const void* logits, int64_t size);
  void (*softmax_gradient[2])(const SoftmaxGradientRow& row);
  double (*square_sum[2])(const void* values, int64_t size);
  void (*pack[2][2])(const PackBlock& block);  ///< by whether B lies transposed, then by the packed dtype
  void (*compress)(const MessageBlock& block, Compression format);
  /// sum += what the block says, or = where it is the first.
  void (*add_message)(float* sum, const MessageBlock& block, Compression format, bool is_first);
  void (*adamw[op::kNumWeightForms][2][2])(const AdamWPart& part);  ///< by form, moments' and gradient's dtype
};

inline int index_of(DType dtype) {
  return dtype == DType::kBF16 ? 1 : 0;
}

/// The best table that `isa` may run.
const KernelTable& kernel_table(CpuIsa isa);

/// The tables themselves; call them only where the processor has the instructions.
const KernelTable& kernel_table_generic();
const KernelTable& kernel_table_avx2();
const KernelTable& kernel_table_avx512();
const KernelTable& kernel_table_avx512bf16();

}  // namespace litespark::cpu
