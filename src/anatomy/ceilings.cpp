// SPDX-License-Identifier: Apache-2.0
#include "anatomy/ceilings.h"

#include <algorithm>

#include "anatomy/attention.h"
#include "anatomy/workspace.h"
#include "core/checked.h"
#include "model/probe_matmul.h"

namespace litespark::anatomy {
namespace {

constexpr int64_t kLeastInner = 32;

/// Of the peak, as the planner takes shares.
double share_of(double rate, double peak) {
  return std::clamp(rate / peak, 0.001, 1.0);
}

}  // namespace

double measure_matmul(Backend& backend, const MeasureOptions& options, int64_t rows, int64_t in_features,
                      int64_t out_features) {
  ProbeMatmul product(backend, options.compute,
                      {.rows = rows, .in_features = in_features, .out_features = out_features});
  product.set_random();
  const Timing timing = time_runs(backend, options.seconds, [&] { product.run(); });
  return 2.0 * real(rows) * real(in_features) * real(out_features) / timing.median_seconds;
}

double Ceilings::matmul_flops_per_second() const {
  double best = 0;
  for (const InnerRate& rate : matmul) best = std::max(best, rate.flops_per_second);
  return best;
}

double Ceilings::matmul_half_k() const {
  const double best = matmul_flops_per_second();
  std::vector<double> halves;
  for (const InnerRate& rate : matmul) {
    if (rate.flops_per_second < best) halves.push_back(real(rate.inner) * (best / rate.flops_per_second - 1));
  }
  return median_of(halves);
}

Ceilings measure_ceilings(Backend& backend, const MeasureOptions& options, const CeilingSizes& sizes) {
  Ceilings ceilings;
  for (int64_t inner = kLeastInner; inner <= sizes.most_inner; inner *= 2) {
    ceilings.matmul.push_back({inner, measure_matmul(backend, options, sizes.rows, inner, sizes.columns)});
  }
  ceilings.bytes_per_second = measure_copy_rate(backend, sizes.copy_bytes / 2, options.seconds);
  Workspace workspace(backend);
  const Tensor one = workspace.zeros(DType::kF32, {1});
  const Tensor other = workspace.zeros(DType::kF32, {1});
  const op::Convert<Tensor> tiny{.out = other, .x = one};
  ceilings.op_seconds = time_runs(backend, options.seconds, [&] { backend.run(tiny); }).median_seconds;
  return ceilings;
}

Saturation saturation_of(double x1, double rate1, double x2, double rate2) {
  if (rate2 <= rate1) return {.limit = std::max(rate1, rate2), .half = 0};
  // 1 / rate = 1 / limit + (half / limit) / x: a line through two points in 1 / x.
  const double slope = (1 / rate1 - 1 / rate2) / (1 / x1 - 1 / x2);
  const double limit = 1 / (1 / rate2 - slope / x2);
  if (!(limit > 0)) return {.limit = rate2, .half = 0};
  return {.limit = limit, .half = slope * limit};
}

void put_ceilings(const Ceilings& ceilings, Hardware& hardware) {
  hardware.bf16_tflops = ceilings.matmul_flops_per_second() / 1e12;
  hardware.matmul_efficiency = 1;
  hardware.matmul_half_k = ceilings.matmul_half_k();
  hardware.memory_tbps = ceilings.bytes_per_second / 1e12;
  hardware.memory_efficiency = 1;
  hardware.op_overhead_us = ceilings.op_seconds * 1e6;
}

void put_attention(Backend& backend, const MeasureOptions& options, const CeilingSizes& sizes,
                   double matmul_flops_per_second, Hardware& hardware) {
  const AttentionSizes heads{
      .tokens = sizes.attention_tokens, .heads = sizes.heads, .kv_heads = sizes.heads, .head_dim = sizes.head_dim};
  struct Point {
    double length = 0, forward = 0, backward = 0;
  };
  std::vector<Point> points;
  for (const int64_t length : {std::max<int64_t>(1, sizes.attention_tokens / 4), sizes.attention_tokens}) {
    const op::AttentionShape shape = attention_shape(heads, length);
    const AttentionCounts counts = count_attention(shape, options.compute);
    const AttentionSpeed speed = measure_attention(backend, options, shape);
    points.push_back(
        {real(length), counts.forward_flops / speed.forward_seconds, counts.backward_flops / speed.backward_seconds});
  }
  const Point& shorter = points.front();
  const Point& longer = points.back();
  const Saturation forward = saturation_of(shorter.length, shorter.forward, longer.length, longer.forward);
  AttentionRates& rates = hardware.attention;
  rates.vendor_forward = share_of(forward.limit, matmul_flops_per_second);
  // The planner gives backward 2.25 times forward's half: the share is the one that meets the longer sequence.
  rates.vendor_backward =
      share_of(longer.backward * (1 + 2.25 * forward.half / longer.length), matmul_flops_per_second);
  rates.flash1 = rates.flash2 = rates.vendor_forward;
  rates.half_length = forward.half;
  rates.full_width = real(sizes.head_dim);
}

}  // namespace litespark::anatomy
