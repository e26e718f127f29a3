// SPDX-License-Identifier: Apache-2.0
#include "model/matmul_peak.h"

#include <algorithm>
#include <chrono>

#include "model/probe_matmul.h"

namespace litespark {
namespace {

constexpr int64_t kRows = 512;
constexpr int64_t kFeatures = 1024;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

double measure_matmul_rate(Backend& backend, DType compute, double seconds) {
  ProbeMatmul product(backend, compute, {.rows = kRows, .in_features = kFeatures, .out_features = kFeatures});
  const double start = seconds_now();
  double best = 0;
  do {
    backend.synchronize();
    const double before = seconds_now();
    product.run();
    backend.synchronize();
    const double flops = 2.0 * static_cast<double>(kRows) * static_cast<double>(kFeatures * kFeatures);
    best = std::max(best, flops / (seconds_now() - before));
  } while (seconds_now() - start < seconds);
  return best;
}

}  // namespace litespark
