// SPDX-License-Identifier: Apache-2.0
#include "model/probe_matmul.h"

#include <algorithm>
#include <bit>

#include "core/bf16.h"
#include "core/error.h"
#include "core/rng.h"

namespace litespark {
namespace {

/// Sums of 256 products of -1, 0 and 1: even partial ones are exact in bf16, in whatever order and type a library adds.
constexpr ProbeMatmul::Shape kChecked{.rows = 192, .in_features = 256, .out_features = 384};

int64_t x_at(int64_t row, int64_t k) {
  return (row * 2 + k * k + k / 7 + row * k / 5) % 3 - 1;
}
int64_t w_at(int64_t out, int64_t k) {
  return (out + k * (out % 5 + 1) + k / 3) % 3 - 1;
}

std::vector<float> filled(int64_t rows, int64_t columns, int64_t (*at)(int64_t, int64_t)) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < columns; ++k) {
      values[static_cast<size_t>(row * columns + k)] = static_cast<float>(at(row, k));
    }
  }
  return values;
}

constexpr uint64_t kProbeStream = 0x70726f6265;
/// Numbers drawn; longer operands repeat them.
constexpr size_t kDrawn = size_t{1} << 18;

std::vector<float> normal_values(int64_t count, uint64_t first) {
  const RandomStream random(1, kProbeStream);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i < kDrawn ? static_cast<float>(random.normal(first + i)) : values[i - kDrawn];
  }
  return values;
}

}  // namespace

ProbeMatmul::ProbeMatmul(Backend& backend, DType compute, const Shape& shape) : backend_(backend), compute_(compute) {
  const bool is_packed = backend.sizes().packs_weights(compute);
  const LinearShape linear{.rows = shape.rows,
                           .in_features = shape.in_features,
                           .out_features = shape.out_features,
                           .compute = compute,
                           .weights_packed = is_packed};
  product_.y = make(compute, {shape.rows, shape.out_features});
  product_.x = make(compute, {shape.rows, shape.in_features});
  product_.in_features = shape.in_features;
  product_.out_features = shape.out_features;
  product_.scratch = make(DType::kU8, {backend.sizes().matmul_forward_scratch_bytes(linear)});
  if (is_packed) {
    f32_weight_ = make(DType::kF32, {shape.out_features, shape.in_features});
    product_.packed = make(DType::kU8, {backend.sizes().packed_bytes(linear, op::PackForm::kForward)});
    set_weight(std::vector<float>(static_cast<size_t>(shape.out_features * shape.in_features)));
  } else {
    product_.weight = make(compute, {shape.out_features, shape.in_features});
  }
  backend.prepare(product_);
}

Tensor ProbeMatmul::make(DType dtype, std::initializer_list<int64_t> extents) {
  const litespark::Shape shape(extents);
  if (shape.num_elements() == 0) return {};
  memory_.push_back(backend_.allocate(shape.num_elements() * dtype_bytes(dtype)));
  return {.data = memory_.back()->data(), .dtype = dtype, .shape = shape, .device = backend_.device()};
}

void ProbeMatmul::write(const Tensor& tensor, const std::vector<float>& values) {
  if (std::ssize(values) != tensor.shape.num_elements()) {
    throw InternalError("probe_matmul", "wrong number of values", values.size(), tensor.shape.num_elements());
  }
  if (tensor.dtype == DType::kF32) {
    backend_.copy_to_device(tensor.data, values.data(), std::ssize(values) * 4);
    return;
  }
  std::vector<bf16> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(), to_bf16);
  backend_.copy_to_device(tensor.data, narrow.data(), std::ssize(narrow) * 2);
}

void ProbeMatmul::set_x(const std::vector<float>& values) {
  write(product_.x, values);
}

void ProbeMatmul::set_weight(const std::vector<float>& values) {
  if (product_.packed.data == nullptr) {
    write(product_.weight, values);
    return;
  }
  write(f32_weight_, values);
  backend_.run(op::PackWeight<Tensor>{.packed = product_.packed,
                                      .weight = f32_weight_,
                                      .form = op::PackForm::kForward,
                                      .compute_bf16 = compute_ == DType::kBF16});
}

void ProbeMatmul::set_random() {
  set_x(normal_values(product_.x.num_elements(), 0));
  set_weight(normal_values(product_.in_features * product_.out_features, kDrawn));
}

void ProbeMatmul::run() {
  backend_.run(product_);
}

std::vector<float> ProbeMatmul::y() const {
  std::vector<float> values(static_cast<size_t>(product_.y.shape.num_elements()));
  if (compute_ == DType::kF32) {
    backend_.copy_to_host(values.data(), product_.y.data, std::ssize(values) * 4);
    return values;
  }
  std::vector<bf16> narrow(values.size());
  backend_.copy_to_host(narrow.data(), product_.y.data, std::ssize(narrow) * 2);
  std::transform(narrow.begin(), narrow.end(), values.begin(), [](bf16 value) { return to_float(value); });
  return values;
}

int64_t count_wrong_products(const std::vector<float>& y) {
  const std::vector<float> x = filled(kChecked.rows, kChecked.in_features, x_at);
  const std::vector<float> w = filled(kChecked.out_features, kChecked.in_features, w_at);
  int64_t wrong = 0;
  for (int64_t row = 0; row < kChecked.rows; ++row) {
    for (int64_t out = 0; out < kChecked.out_features; ++out) {
      float sum = 0;
      for (int64_t k = 0; k < kChecked.in_features; ++k) {
        sum += x[static_cast<size_t>(row * kChecked.in_features + k)] *
               w[static_cast<size_t>(out * kChecked.in_features + k)];
      }
      wrong += y.at(static_cast<size_t>(row * kChecked.out_features + out)) == sum ? 0 : 1;
    }
  }
  return wrong;
}

MatmulCheck check_matmul(Backend& backend, DType compute, int64_t num_repeats) {
  ProbeMatmul probe(backend, compute, kChecked);
  probe.set_x(filled(kChecked.rows, kChecked.in_features, x_at));
  probe.set_weight(filled(kChecked.out_features, kChecked.in_features, w_at));
  probe.run();
  const std::vector<float> first = probe.y();
  MatmulCheck check{.num_values = std::ssize(first),
                    .num_wrong = count_wrong_products(first),
                    .num_changed = 0,
                    .num_repeats = num_repeats};
  const auto same_bits = [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); };
  for (int64_t repeat = 0; repeat < num_repeats; ++repeat) {
    probe.run();
    const std::vector<float> again = probe.y();
    check.num_changed += std::equal(first.begin(), first.end(), again.begin(), same_bits) ? 0 : 1;
  }
  return check;
}

}  // namespace litespark
