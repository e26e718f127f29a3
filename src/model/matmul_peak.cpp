// SPDX-License-Identifier: Apache-2.0
#include "model/matmul_peak.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace litespark {
namespace {

constexpr int64_t kRows = 512;
constexpr int64_t kFeatures = 1024;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Tensors of their own memory.
class Buffers {
 public:
  explicit Buffers(Backend& backend) : backend_(backend) {}

  Tensor make(DType dtype, Shape shape) {
    if (shape.num_elements() == 0) return {};
    memory_.push_back(backend_.allocate(shape.num_elements() * dtype_bytes(dtype)));
    return {.data = memory_.back()->data(), .dtype = dtype, .shape = shape, .device = backend_.device()};
  }

 private:
  Backend& backend_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
};

}  // namespace

double measure_matmul_rate(Backend& backend, DType compute, double seconds) {
  const bool is_packed = backend.sizes().packs_weights(compute);
  const LinearShape shape{.rows = kRows,
                          .in_features = kFeatures,
                          .out_features = kFeatures,
                          .compute = compute,
                          .weights_packed = is_packed};
  Buffers buffers(backend);
  op::MatmulForward<Tensor> product{.y = buffers.make(compute, {kRows, kFeatures}),
                                    .x = buffers.make(compute, {kRows, kFeatures}),
                                    .in_features = kFeatures,
                                    .out_features = kFeatures};
  product.scratch = buffers.make(DType::kU8, {backend.sizes().matmul_forward_scratch_bytes(shape)});
  if (is_packed) {
    product.packed = buffers.make(DType::kU8, {backend.sizes().packed_bytes(shape, op::PackForm::kForward)});
    backend.run(op::PackWeight<Tensor>{.packed = product.packed,
                                       .weight = buffers.make(DType::kF32, {kFeatures, kFeatures}),
                                       .form = op::PackForm::kForward,
                                       .compute_bf16 = compute == DType::kBF16});
  } else {
    product.weight = buffers.make(compute, {kFeatures, kFeatures});
  }
  backend.prepare(product);
  const double start = seconds_now();
  double best = 0;
  do {
    backend.synchronize();
    const double before = seconds_now();
    backend.run(product);
    backend.synchronize();
    const double flops = 2.0 * static_cast<double>(kRows) * static_cast<double>(kFeatures * kFeatures);
    best = std::max(best, flops / (seconds_now() - before));
  } while (seconds_now() - start < seconds);
  return best;
}

}  // namespace litespark
