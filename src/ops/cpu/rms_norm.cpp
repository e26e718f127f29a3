// SPDX-License-Identifier: Apache-2.0
// RMSNorm with the residual addition before it. The weight gradient is summed in blocks of a fixed number of rows,
// then over the blocks in order.
#include <algorithm>

#include "ops/cpu/abs_max.h"
#include "ops/cpu/column_sum.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 16;

}  // namespace

void CpuBackend::run(const op::RmsNormForward<Tensor>& op) {
  const auto kernel = kernel_table(isa_).norm_forward[index_of(op.x.dtype)][index_of(op.y.dtype)];
  const Rows x(op.x), delta(op.delta), sum(op.sum), y(op.y);
  float* rstd = op.rstd.as<float>();
  parallel_ranges(threads_, op.x.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      rstd[n] = kernel({.x = x.row(n),
                        .delta = delta.row(n),
                        .sum = sum.row(n),
                        .y = y.row(n),
                        .weight = op.weight.as<float>(),
                        .size = op.x.columns(),
                        .eps = op.eps});
    }
  });
  raise_abs_max(threads_, op.abs_max, op.y);
}

void CpuBackend::run(const op::RmsNormBackward<Tensor>& op) {
  const int64_t channels = op.x.columns();
  const auto kernel = kernel_table(isa_).norm_backward[index_of(op.x.dtype)][index_of(op.dy.dtype)];
  const Rows dresidual(op.dresidual), cast(op.dresidual_cast), dy(op.dy), x(op.x);
  const float* rstd = op.rstd.as<float>();
  parallel_ranges(threads_, op.x.rows(), op::kRmsNormRowsPerBlock, [&](int64_t begin, int64_t end) {
    float* partial = op.partials.as<float>() + begin / op::kRmsNormRowsPerBlock * channels;
    std::fill(partial, partial + channels, 0.0f);
    for (int64_t n = begin; n < end; ++n) {
      kernel({.dresidual = dresidual.row(n),
              .dresidual_cast = cast.row(n),
              .dweight = partial,
              .dy = dy.row(n),
              .x = x.row(n),
              .weight = op.weight.as<float>(),
              .size = channels,
              .rstd = rstd[n],
              .first = op.first});
    }
  });
  sum_columns(threads_, {.out = op.dweight.as<float>(),
                         .partials = op.partials.as<float>(),
                         .num_rows = ceil_div(op.x.rows(), op::kRmsNormRowsPerBlock),
                         .num_columns = channels,
                         .stride = channels,
                         .accumulate = op.accumulate});
  raise_abs_max(threads_, op.abs_max, op.dresidual_cast.has_value() ? op.dresidual_cast : op.dresidual);
}

}  // namespace litespark::cpu
