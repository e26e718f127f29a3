// SPDX-License-Identifier: Apache-2.0
// Launchers of the project's own attention kernels: tensor cores for bf16 heads of a listed size, plain fp32 arithmetic
// for everything else. Results depend on the batch alone: no atomics, one owner for every output element.
#pragma once

#include "core/op/attention.h"
#include "core/tensor.h"
#include "ops/cuda/device_context.h"

namespace litespark::cuda {

/// Where the log-sum-exp of (document, head, position) lies: by head over all tokens (the op's contract), or by
/// document (how cuDNN writes it when all documents are equal).
struct StatsLayout {
  int64_t head_stride = 0;
  int64_t document_stride = 0;
  bool by_document = false;

#ifdef __CUDACC__
  __device__ int64_t start(int head, int document, int begin) const {
    return head * head_stride + (by_document ? document * document_stride : begin);
  }
#endif
};

/// The rotary angles of tokens, as op::Rope has them; no table: nothing is rotated.
struct RotaryAngles {
  const void* table = nullptr;  ///< [P, D]
  DType dtype = DType::kF32;    ///< of it
  const int32_t* positions = nullptr;

  static RotaryAngles of(const Tensor& table, const Tensor& positions) {
    if (!table.has_value()) return {};
    return {.table = table.data, .dtype = table.dtype, .positions = positions.as<int32_t>()};
  }
};

/// Kernel arguments of both directions; the dtype of the void pointers is the launcher's parameter. Of whole attention,
/// or, where `keys_values` is there, of a part that context ranks share.
struct AttentionArguments {
  const void* qkv = nullptr;
  void* out = nullptr;
  float* log_sum_exp = nullptr;
  const void* dout = nullptr;
  void* dqkv = nullptr;
  const void* keys_values = nullptr;  ///< a part's keys and values: those of qkv are not read
  float* merged = nullptr;            ///< a part's `out` of the forward
  float* dqueries = nullptr;          ///< a part's, like the next
  float* dkeys_values = nullptr;
  float* delta = nullptr;      ///< [H, N]: rowsum(dout * out)
  float* abs_max = nullptr;    ///< of out, backward of dqkv; null: not wanted
  RotaryAngles angles;         ///< the Hopper kernels alone rotate
  int32_t* tickets = nullptr;  ///< [2] of the Hopper forward: 0 before and after it
  const int32_t* offsets = nullptr;
  const int32_t* num_documents = nullptr;
  StatsLayout stats;
  int num_tokens = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;
  float scale = 0;
  int max_documents = 0;
  int uniform_length = 0;  ///< > 0: every document has this length
  bool has_alibi = false;  ///< the portable kernels alone know it
  op::HeadGates gates;
  op::ContextPart part = {};
  bool first = false;  ///< of a part: nothing stands in `merged`, log_sum_exp or `dqueries` yet

  bool is_part() const { return keys_values != nullptr; }
  /// Heads that get blocks, and kv heads that do: those with a head that is on.
  int num_on() const { return gates.num_on(0, num_heads); }
  int num_busy_kv_heads() const { return gates.num_busy(num_kv_heads, num_heads / num_kv_heads); }

#ifdef __CUDACC__
  __device__ int64_t qkv_stride() const {
    return int64_t{num_heads + 2 * num_kv_heads} * head_dim;
  }
  __device__ int64_t out_stride() const {
    return int64_t{num_heads} * head_dim;
  }
  /// Row `row`, head 0; values stand K D elements behind keys.
  template <class T>
  __device__ const T* queries_at(int row) const {
    return static_cast<const T*>(qkv) + row * qkv_stride();
  }
  template <class T>
  __device__ const T* douts_at(int row) const {
    return static_cast<const T*>(dout) + row * out_stride();
  }
  template <class T, bool kIsPart>
  __device__ const T* keys_at(int row) const {
    if constexpr (kIsPart) return static_cast<const T*>(keys_values) + row * key_stride<true>();
    return queries_at<T>(row) + out_stride();
  }
  template <bool kIsPart>
  __device__ int64_t key_stride() const {
    return kIsPart ? int64_t{2} * num_kv_heads * head_dim : qkv_stride();
  }
  __device__ int group() const {
    return num_heads / num_kv_heads;
  }
  /// The head of block `slot` among num_on(), and the kv head of block `slot` among num_busy_kv_heads().
  __device__ int query_head(int slot) const {
    return gates.nth_on(0, slot);
  }
  __device__ int busy_kv_head(int slot) const {
    return gates.nth_busy(group(), slot);
  }
  /// What a scaled score loses for each position between query and key.
  __device__ float slope(int head) const {
    return has_alibi ? exp2f(static_cast<float>(op::alibi_log2_slope(head, num_heads))) : 0.0f;
  }
#endif
};

/// Zeros where heads are off (attention_gates.cpp): in the columns of `matrix`, whose rows begin with the query heads;
/// in the statistics [H, N]; in dqkv, keys and values that no head reads included.
void clear_off_heads(const op::AttentionShape& shape, const Tensor& matrix, const DeviceContext& context);
void clear_off_statistics(const op::AttentionShape& shape, const Tensor& log_sum_exp, const DeviceContext& context);
void clear_off_gradients(const op::AttentionShape& shape, const Tensor& dqkv, const DeviceContext& context);

/// What both directions of a part read. Op: AttentionPartForward or AttentionPartBackward.
template <class Op>
AttentionArguments part_arguments(const Op& op) {
  const int64_t num_rows = op.qkv.rows();
  return {.qkv = op.qkv.data,
          .log_sum_exp = op.log_sum_exp.template as<float>(),
          .keys_values = op.keys_values.data,
          .offsets = op.offsets.template as<int32_t>(),
          .num_documents = op.num_documents.template as<int32_t>(),
          .stats = {.head_stride = num_rows},
          .num_tokens = static_cast<int>(num_rows),
          .num_heads = op.shape.num_heads,
          .num_kv_heads = op.shape.num_kv_heads,
          .head_dim = op.shape.head_dim,
          .window = op.shape.window,
          .scale = op.shape.scale,
          .max_documents = op.shape.max_documents,
          .has_alibi = op.shape.has_alibi,
          .part = op.part,
          .first = op.first};
}

/// Whether the tensor-core kernels serve heads of this size.
bool attention_has_tensor_kernel(int head_dim, DType dtype);

void launch_attention_forward(const AttentionArguments& arguments, DType dtype, const DeviceContext& context);
void launch_attention_backward(const AttentionArguments& arguments, DType dtype, const DeviceContext& context);

/// The forward for Hopper's own instructions (attention_forward_sm90.cu): heads of 64, 96, 128 and 256 in bf16. It
/// rotates whole attention's queries and keys of some.
bool attention_has_hopper_forward(int head_dim, DType dtype, const DeviceContext& context);
constexpr bool hopper_forward_rotates(int head_dim) {
  return head_dim == 64 || head_dim == 128;
}
void launch_attention_forward_hopper(const AttentionArguments& arguments, const DeviceContext& context);

/// The backward for them (attention_backward_sm90.cu): the same heads but 256. `scratch` is laid out by
/// gradient_scratch. In free order (DeviceContext::deterministic false) dQ is summed as blocks come.
bool attention_has_hopper_backward(int head_dim, DType dtype, const DeviceContext& context);
void launch_attention_backward_hopper(const AttentionArguments& arguments, void* scratch, const DeviceContext& context);

/// The parts, each defined in the file named after it.
void launch_attention_forward_tensor(const AttentionArguments& arguments, const DeviceContext& context);
void launch_attention_backward_keys(const AttentionArguments& arguments, const DeviceContext& context);
void launch_attention_backward_queries(const AttentionArguments& arguments, const DeviceContext& context);
void launch_attention_delta(const AttentionArguments& arguments, DType dtype, const DeviceContext& context);
void launch_attention_forward_simt(const AttentionArguments& arguments, DType dtype, const DeviceContext& context);
void launch_attention_backward_simt(const AttentionArguments& arguments, DType dtype, const DeviceContext& context);

}  // namespace litespark::cuda
