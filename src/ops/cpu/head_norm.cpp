// SPDX-License-Identifier: Apache-2.0
// RMSNorm of every query and key head (Qwen3). A head is a short row; the weight is shared by all heads of a kind.
#include <algorithm>
#include <cstring>

#include "ops/cpu/column_sum.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 16;

}  // namespace

void CpuBackend::run(const op::HeadNormForward<Tensor>& op) {
  const int64_t dim = op.head_dim;
  const int normed_heads = op.num_heads + op.num_kv_heads;
  const int dtype = index_of(op.qkv.dtype);
  const auto kernel = kernel_table(isa_).norm_forward[dtype][dtype];
  const Rows qkv(op.qkv), out(op.out);
  const size_t value_bytes = static_cast<size_t>(op.num_kv_heads * dim * dtype_bytes(op.qkv.dtype));
  float* rstd = op.rstd.as<float>();
  parallel_ranges(threads_, op.qkv.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      for (int head = 0; head < normed_heads; ++head) {
        const Tensor& weight = head < op.num_heads ? op.q_weight : op.k_weight;
        rstd[n * normed_heads + head] = kernel({.x = qkv.at(n, head * dim),
                                                .delta = nullptr,
                                                .sum = nullptr,
                                                .y = out.at(n, head * dim),
                                                .weight = weight.as<float>(),
                                                .size = dim,
                                                .eps = op.eps});
      }
      std::memcpy(out.at(n, normed_heads * dim), qkv.at(n, normed_heads * dim), value_bytes);
    }
  });
}

void CpuBackend::run(const op::HeadNormBackward<Tensor>& op) {
  const int64_t dim = op.head_dim;
  const int normed_heads = op.num_heads + op.num_kv_heads;
  const int dtype = index_of(op.qkv.dtype);
  const auto kernel = kernel_table(isa_).norm_backward[dtype][dtype];
  const Rows qkv(op.qkv), dqkv(op.dqkv);
  const float* rstd = op.rstd.as<float>();
  float* partials = op.partials.as<float>();
  parallel_ranges(threads_, op.qkv.rows(), op::kRmsNormRowsPerBlock, [&](int64_t begin, int64_t end) {
    // [2 D]: the query weight's gradient, then the key weight's.
    float* partial = partials + begin / op::kRmsNormRowsPerBlock * 2 * dim;
    std::fill(partial, partial + 2 * dim, 0.0f);
    for (int64_t n = begin; n < end; ++n) {
      for (int head = 0; head < normed_heads; ++head) {
        const bool is_query = head < op.num_heads;
        kernel({.dresidual = dqkv.at(n, head * dim),
                .dresidual_cast = nullptr,
                .dweight = is_query ? partial : partial + dim,
                .dy = dqkv.at(n, head * dim),
                .x = qkv.at(n, head * dim),
                .weight = (is_query ? op.q_weight : op.k_weight).as<float>(),
                .size = dim,
                .rstd = rstd[n * normed_heads + head],
                .first = true});
      }
    }
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
