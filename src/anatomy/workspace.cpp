// SPDX-License-Identifier: Apache-2.0
#include "anatomy/workspace.h"

#include <algorithm>

#include "anatomy/measure.h"
#include "core/bf16.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/step_state.h"

namespace litespark::anatomy {
namespace {

constexpr uint64_t kNumbersStream = 0x616e61746f6d79;
/// Values drawn; longer tensors repeat them.
constexpr int64_t kDrawn = 1 << 18;

template <class T>
void fill(Backend& backend, const Tensor& tensor, const std::vector<T>& drawn) {
  auto* to = static_cast<std::byte*>(tensor.data);
  for (int64_t done = 0; done < tensor.num_elements(); done += std::ssize(drawn)) {
    const int64_t count = std::min<int64_t>(std::ssize(drawn), tensor.num_elements() - done);
    backend.copy_to_device(to + done * static_cast<int64_t>(sizeof(T)), drawn.data(),
                           count * static_cast<int64_t>(sizeof(T)));
  }
}

}  // namespace

Tensor Workspace::zeros(DType dtype, const Shape& shape) {
  memory_.push_back(backend_.allocate(std::max<int64_t>(shape.num_elements() * dtype_bytes(dtype), 1)));
  return {.data = memory_.back()->data(), .dtype = dtype, .shape = shape, .device = backend_.device()};
}

Tensor Workspace::numbers(DType dtype, const Shape& shape, float scale) {
  const Tensor tensor = zeros(dtype, shape);
  const RandomStream random(1, kNumbersStream);
  const int64_t count = std::min(kDrawn, tensor.num_elements());
  std::vector<float> drawn(static_cast<size_t>(count));
  for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = scale * static_cast<float>(2 * random.uniform(i) - 1);
  if (dtype == DType::kF32) {
    fill(backend_, tensor, drawn);
  } else if (dtype == DType::kBF16) {
    std::vector<bf16> narrow(drawn.size());
    std::transform(drawn.begin(), drawn.end(), narrow.begin(), to_bf16);
    fill(backend_, tensor, narrow);
  } else {
    throw InternalError("workspace", "numbers are f32 or bf16", dtype_name(dtype), "f32 or bf16");
  }
  return tensor;
}

Tensor Workspace::integers(std::span<const int32_t> values) {
  const Tensor tensor = zeros(DType::kI32, {std::ssize(values)});
  backend_.copy_to_device(tensor.data, values.data(), std::ssize(values) * 4);
  return tensor;
}

Tensor Workspace::scratch(int64_t bytes) {
  return bytes <= 0 ? Tensor{} : zeros(DType::kU8, {bytes});
}

Tensor Workspace::step_state() {
  return zeros(DType::kU8, {static_cast<int64_t>(sizeof(StepState))});
}

std::vector<float> Workspace::floats(const Tensor& tensor) const {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  if (tensor.dtype == DType::kF32) {
    backend_.copy_to_host(values.data(), tensor.data, tensor.bytes());
    return values;
  }
  std::vector<bf16> narrow(values.size());
  backend_.copy_to_host(narrow.data(), tensor.data, tensor.bytes());
  std::transform(narrow.begin(), narrow.end(), values.begin(), [](bf16 value) { return to_float(value); });
  return values;
}

double measure_copy_rate(Backend& backend, int64_t bytes, double seconds) {
  Workspace workspace(backend);
  const int64_t count = std::max<int64_t>(bytes / 4, 1);
  const Tensor from = workspace.numbers(DType::kF32, {count});
  const Tensor to = workspace.zeros(DType::kF32, {count});
  const Timing timing = time_runs(backend, seconds, [&] { backend.run(op::Convert<Tensor>{.out = to, .x = from}); });
  return 8.0 * static_cast<double>(count) / timing.median_seconds;
}

}  // namespace litespark::anatomy
