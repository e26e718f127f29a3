// SPDX-License-Identifier: Apache-2.0
// RMSNorm of every query and key head (Qwen3). A head is a short row; the weight is shared by all heads of a kind.
#include <cmath>

#include "ops/cpu/column_sum.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 16;

template <class T>
void forward_token(const op::HeadNormForward<Tensor>& op, int64_t token) {
  const int64_t dim = op.head_dim;
  const int normed_heads = op.num_heads + op.num_kv_heads;
  const int64_t width = (normed_heads + op.num_kv_heads) * dim;
  for (int head = 0; head < normed_heads + op.num_kv_heads; ++head) {
    const T* x = op.qkv.as<T>() + token * width + head * dim;
    T* out = op.out.as<T>() + token * width + head * dim;
    if (head >= normed_heads) {
      std::copy(x, x + dim, out);
      continue;
    }
    const float* weight = head < op.num_heads ? op.q_weight.as<float>() : op.k_weight.as<float>();
    float squares = 0;
    for (int64_t d = 0; d < dim; ++d) squares += load_float(x[d]) * load_float(x[d]);
    const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(dim) + op.eps);
    op.rstd.as<float>()[token * normed_heads + head] = rstd;
    for (int64_t d = 0; d < dim; ++d) store_float(out[d], load_float(x[d]) * rstd * weight[d]);
  }
}

/// `partial` [2 D]: the query weight's gradient, then the key weight's.
template <class T>
void backward_token(const op::HeadNormBackward<Tensor>& op, int64_t token, float* partial) {
  const int64_t dim = op.head_dim;
  const int normed_heads = op.num_heads + op.num_kv_heads;
  const int64_t width = (normed_heads + op.num_kv_heads) * dim;
  for (int head = 0; head < normed_heads; ++head) {
    const T* x = op.qkv.as<T>() + token * width + head * dim;
    T* dx = op.dqkv.as<T>() + token * width + head * dim;
    const bool is_query = head < op.num_heads;
    const float* weight = is_query ? op.q_weight.as<float>() : op.k_weight.as<float>();
    float* dweight = is_query ? partial : partial + dim;
    const float rstd = op.rstd.as<float>()[token * normed_heads + head];
    float dot = 0;
    for (int64_t d = 0; d < dim; ++d) dot += weight[d] * load_float(dx[d]) * load_float(x[d]);
    const float projection = dot / static_cast<float>(dim) * rstd * rstd;
    for (int64_t d = 0; d < dim; ++d) {
      const float dy_value = load_float(dx[d]);
      const float x_value = load_float(x[d]);
      dweight[d] += dy_value * x_value * rstd;
      store_float(dx[d], rstd * (weight[d] * dy_value - x_value * projection));
    }
  }
}

}  // namespace

void CpuBackend::run(const op::HeadNormForward<Tensor>& op) {
  visit_float_dtype(op.kName, op.qkv.dtype, [&](auto tag) {
    parallel_ranges(threads_, op.qkv.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) forward_token<typename decltype(tag)::type>(op, n);
    });
  });
}

void CpuBackend::run(const op::HeadNormBackward<Tensor>& op) {
  const int64_t dim = op.head_dim;
  float* partials = op.partials.as<float>();
  visit_float_dtype(op.kName, op.qkv.dtype, [&](auto tag) {
    parallel_ranges(threads_, op.qkv.rows(), op::kRmsNormRowsPerBlock, [&](int64_t begin, int64_t end) {
      float* partial = partials + begin / op::kRmsNormRowsPerBlock * 2 * dim;
      std::fill(partial, partial + 2 * dim, 0.0f);
      for (int64_t n = begin; n < end; ++n) backward_token<typename decltype(tag)::type>(op, n, partial);
    });
  });
  ColumnSum sum{.out = op.dq_weight.as<float>(),
                .partials = partials,
                .num_rows = ceil_div(op.qkv.rows(), op::kRmsNormRowsPerBlock),
                .num_columns = dim,
                .stride = 2 * dim,
                .accumulate = op.accumulate};
  sum_columns(threads_, sum);
  sum.out = op.dk_weight.as<float>();
  sum.partials = partials + dim;
  sum_columns(threads_, sum);
}

}  // namespace litespark::cpu
