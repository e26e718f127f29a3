// SPDX-License-Identifier: Apache-2.0
#include "cuda_bench.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/checked.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/step_state.h"
#include "ops/cuda/check.h"

namespace litespark::bench {
namespace {

constexpr int64_t kArenaBytes = int64_t{6} << 30;
constexpr int64_t kBlockBytes = int64_t{32} << 20;
/// Copies of a case in rotation cover at least this much, several times the L2 of an H200.
constexpr int64_t kRotationBytes = int64_t{400} << 20;
constexpr int kMaxCopies = 12;
constexpr int kBatches = 15;

bool is_uncounted(std::string_view name) {
  for (const std::string_view scratch : {"partials", "scratch", "table", "state", "positions"}) {
    if (name == scratch) return true;
  }
  return false;
}

}  // namespace

/// Gives an op's tensors memory one after another, counts traffic, and fills what must not be random bits.
struct CudaBench::Placement {
  cuda::CudaBackend& backend;
  std::byte* base;
  int64_t integer_bound;
  int integer_power;
  int64_t offset = 0;
  int64_t traffic = 0;
  Tensor restored;  ///< the first tensor that is read and written

  Tensor place(std::string_view name, Tensor tensor, int times) {
    if (!tensor.has_value()) return tensor;
    tensor.data = base + offset;
    tensor.device = Device::kCuda;
    offset += round_up(tensor.bytes(), 256);
    if (offset > kArenaBytes) throw InternalError("bench", "case too large", offset, kArenaBytes);
    if (!is_uncounted(name)) traffic += tensor.bytes() * times;
    if (tensor.dtype == DType::kI32 && name != "scratch") {
      const RandomStream stream(static_cast<uint64_t>(tensor.num_elements()), 3);
      std::vector<int32_t> values(static_cast<size_t>(tensor.num_elements()));
      constexpr double kSteps = 0x1p30;
      for (size_t i = 0; i < values.size(); ++i) {
        const double even = static_cast<double>(stream.below(i, static_cast<uint64_t>(kSteps))) / kSteps;
        values[i] = static_cast<int32_t>(static_cast<double>(integer_bound) * std::pow(even, integer_power));
      }
      backend.copy_to_device(tensor.data, values.data(), tensor.bytes());
    } else if (name == "state") {
      const StepState state{.learning_rate = 1e-4f,
                            .clip_norm = 1,
                            .supervised_tokens = 1,
                            .gradient_square_sum = 1,
                            .gradient_scale = 1e-4f,
                            .bias_correction1 = 0.5f,
                            .bias_correction2 = 0.5f};
      backend.copy_to_device(tensor.data, &state, sizeof(state));
    } else if (name == "second_moment") {
      const std::vector<float> ones(static_cast<size_t>(tensor.num_elements()), 1.0f);
      backend.copy_to_device(tensor.data, ones.data(), tensor.bytes());
    }
    return tensor;
  }
  Tensor in(std::string_view name, const Tensor& tensor) { return place(name, tensor, 1); }
  Tensor out(std::string_view name, const Tensor& tensor) { return place(name, tensor, 1); }
  Tensor inout(std::string_view name, const Tensor& tensor) {
    const Tensor placed = place(name, tensor, 2);
    if (!restored.has_value() && name != "state") restored = placed;
    return placed;
  }
};

CudaBench::CudaBench(cuda::CudaBackend& backend) : backend_(backend), arena_(backend.allocate(kArenaBytes)) {
  cuda::check(cudaEventCreate(&start_), "bench");
  cuda::check(cudaEventCreate(&stop_), "bench");
  fill();
}

CudaBench::~CudaBench() {
  cudaEventDestroy(start_);
  cudaEventDestroy(stop_);
}

// Standard normal bf16 values: two of them read as one float are a normal value too.
void CudaBench::fill() {
  const RandomStream stream(1, 2);
  std::vector<bf16> block(static_cast<size_t>(kBlockBytes / 2));
  for (size_t i = 0; i < block.size(); ++i) block[i] = to_bf16(static_cast<float>(stream.normal(i)));
  auto* base = static_cast<std::byte*>(arena_->data());
  backend_.copy_to_device(base, block.data(), kBlockBytes);
  for (int64_t at = kBlockBytes; at < kArenaBytes; at += kBlockBytes) {
    cuda::check(cudaMemcpyAsync(base + at, base, static_cast<size_t>(kBlockBytes), cudaMemcpyDeviceToDevice,
                                backend_.context().stream),
                "bench");
  }
  backend_.synchronize();
}

double CudaBench::median_microseconds(int launches, const std::function<void(int)>& body,
                                      const std::function<void()>& before) {
  const cudaStream_t stream = backend_.context().stream;
  std::vector<double> samples;
  for (int batch = -2; batch < kBatches; ++batch) {
    before();
    cuda::check(cudaEventRecord(start_, stream), "bench");
    for (int i = 0; i < launches; ++i) body(i);
    cuda::check(cudaEventRecord(stop_, stream), "bench");
    cuda::check(cudaEventSynchronize(stop_), "bench");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, start_, stop_), "bench");
    if (batch >= 0) samples.push_back(static_cast<double>(milliseconds) * 1e3 / launches);
  }
  std::nth_element(samples.begin(), samples.begin() + kBatches / 2, samples.end());
  return samples[kBatches / 2];
}

Timing CudaBench::time(const BenchCase& bench) {
  fill();
  auto* base = static_cast<std::byte*>(arena_->data());
  std::vector<op::AnyOp<Tensor>> copies;
  Placement placement{
      .backend = backend_, .base = base, .integer_bound = bench.integer_bound, .integer_power = bench.integer_power};
  int64_t traffic = 0;
  const auto add_copy = [&] {
    placement.traffic = 0;
    copies.push_back(std::visit([&](const auto& op) { return op::AnyOp<Tensor>(op.map(placement)); }, bench.op));
    traffic = placement.traffic;
  };
  add_copy();
  const int64_t one = placement.offset;
  if (!bench.destroys_input) {
    const int64_t wanted = std::clamp<int64_t>(ceil_div(kRotationBytes, one), 1, kMaxCopies);
    while (static_cast<int64_t>(copies.size()) < wanted && placement.offset + one < kArenaBytes) add_copy();
  }
  const auto run = [&](int i) {
    std::visit(
        [&]<class Op>(const Op& op) {
          if constexpr (!op::Communication<Op>) backend_.run(op);
        },
        copies[static_cast<size_t>(i) % copies.size()]);
  };
  const Tensor& restored = placement.restored;
  std::byte* saved = base + placement.offset;
  const auto restore = [&] {
    if (!bench.destroys_input) return;
    cuda::check(cudaMemcpyAsync(restored.data, saved, static_cast<size_t>(restored.bytes()), cudaMemcpyDeviceToDevice,
                                backend_.context().stream),
                "bench");
  };
  const int launches = bench.destroys_input ? 1 : std::max(8, static_cast<int>(copies.size()));
  Timing timing{.name = bench.name,
                .shape = bench.shape,
                .bytes = bench.counted_bytes > 0 ? bench.counted_bytes : traffic,
                .microseconds = median_microseconds(launches, run, restore)};
  backend_.synchronize();
  timing.gigabytes_per_second = static_cast<double>(timing.bytes) / timing.microseconds * 1e-3;
  return timing;
}

Timing CudaBench::time_copy() {
  constexpr int64_t kBytes = int64_t{1} << 30;
  auto* base = static_cast<std::byte*>(arena_->data());
  const auto copy = [&](int i) {
    cuda::check(cudaMemcpyAsync(base + (2 * (i % 2) + 1) * kBytes, base + 2 * (i % 2) * kBytes,
                                static_cast<size_t>(kBytes), cudaMemcpyDeviceToDevice, backend_.context().stream),
                "bench");
  };
  Timing timing{
      .name = "copy", .shape = "1 GiB", .bytes = 2 * kBytes, .microseconds = median_microseconds(8, copy, [] {})};
  timing.gigabytes_per_second = static_cast<double>(timing.bytes) / timing.microseconds * 1e-3;
  return timing;
}

}  // namespace litespark::bench
