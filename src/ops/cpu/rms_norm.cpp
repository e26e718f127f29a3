// SPDX-License-Identifier: Apache-2.0
// RMSNorm with the residual addition before it. The weight gradient is summed in blocks of a fixed number of rows,
// then over the blocks in order.
#include <cmath>

#include "ops/cpu/column_sum.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 16;

template <class Residual, class Compute>
void forward_row(const op::RmsNormForward<Tensor>& op, int64_t row) {
  const int64_t channels = op.x.columns();
  const Residual* x = op.x.as<Residual>() + row * channels;
  if (op.delta.has_value()) {
    const Compute* delta = op.delta.as<Compute>() + row * channels;
    Residual* sum = op.sum.as<Residual>() + row * channels;
    for (int64_t c = 0; c < channels; ++c) store_float(sum[c], load_float(x[c]) + load_float(delta[c]));
    x = sum;
  }
  float squares = 0;
  for (int64_t c = 0; c < channels; ++c) squares += load_float(x[c]) * load_float(x[c]);
  const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(channels) + op.eps);
  op.rstd.as<float>()[row] = rstd;
  const float* weight = op.weight.as<float>();
  Compute* y = op.y.as<Compute>() + row * channels;
  for (int64_t c = 0; c < channels; ++c) store_float(y[c], load_float(x[c]) * rstd * weight[c]);
}

template <class Residual, class Compute>
void backward_row(const op::RmsNormBackward<Tensor>& op, int64_t row, float* partial) {
  const int64_t channels = op.x.columns();
  const Residual* x = op.x.as<Residual>() + row * channels;
  const Compute* dy = op.dy.as<Compute>() + row * channels;
  const float* weight = op.weight.as<float>();
  Residual* dresidual = op.dresidual.as<Residual>() + row * channels;
  Compute* cast = op.dresidual_cast.has_value() ? op.dresidual_cast.as<Compute>() + row * channels : nullptr;
  const float rstd = op.rstd.as<float>()[row];
  float dot = 0;
  for (int64_t c = 0; c < channels; ++c) dot += weight[c] * load_float(dy[c]) * load_float(x[c]);
  const float projection = dot / static_cast<float>(channels) * rstd * rstd;
  for (int64_t c = 0; c < channels; ++c) {
    const float x_value = load_float(x[c]);
    const float dy_value = load_float(dy[c]);
    const float above = op.first ? 0.0f : load_float(dresidual[c]);
    const float result = above + rstd * (weight[c] * dy_value - x_value * projection);
    store_float(dresidual[c], result);
    if (cast != nullptr) store_float(cast[c], result);
    partial[c] += dy_value * x_value * rstd;
  }
}

}  // namespace

void CpuBackend::run(const op::RmsNormForward<Tensor>& op) {
  visit_float_dtype(op.kName, op.x.dtype, [&](auto residual_tag) {
    visit_float_dtype(op.kName, op.y.dtype, [&](auto compute_tag) {
      parallel_ranges(threads_, op.x.rows(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          forward_row<typename decltype(residual_tag)::type, typename decltype(compute_tag)::type>(op, row);
        }
      });
    });
  });
}

void CpuBackend::run(const op::RmsNormBackward<Tensor>& op) {
  const int64_t channels = op.x.columns();
  float* partials = op.partials.as<float>();
  visit_float_dtype(op.kName, op.x.dtype, [&](auto residual_tag) {
    visit_float_dtype(op.kName, op.dy.dtype, [&](auto compute_tag) {
      parallel_ranges(threads_, op.x.rows(), op::kRmsNormRowsPerBlock, [&](int64_t begin, int64_t end) {
        float* partial = partials + begin / op::kRmsNormRowsPerBlock * channels;
        std::fill(partial, partial + channels, 0.0f);
        for (int64_t row = begin; row < end; ++row) {
          backward_row<typename decltype(residual_tag)::type, typename decltype(compute_tag)::type>(op, row, partial);
        }
      });
    });
  });
  sum_columns(threads_, {.out = op.dweight.as<float>(),
                         .partials = partials,
                         .num_rows = ceil_div(op.x.rows(), op::kRmsNormRowsPerBlock),
                         .num_columns = channels,
                         .stride = channels,
                         .accumulate = op.accumulate});
}

}  // namespace litespark::cpu
