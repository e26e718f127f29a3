// SPDX-License-Identifier: Apache-2.0
#include "backend_choice.h"

#include "core/error.h"

#ifdef LITESPARK_HAS_CPU
#include <algorithm>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/host_limits.h"
#endif
#ifdef LITESPARK_HAS_CUDA
#include "ops/cuda/cuda_backend.h"
#endif

namespace litespark::cli {
namespace {

#ifdef LITESPARK_HAS_CPU
constexpr bool kHasCpu = true;
std::unique_ptr<Backend> make_cpu(const RunConfig& config) {
  const int64_t ranks_of_machine = config.cluster.gpus / config.cluster.nodes;
  int64_t threads = config.device.threads;
  if (threads == 0 && ranks_of_machine > 1) threads = std::max<int64_t>(1, cpu::default_threads() / ranks_of_machine);
  return make_cpu_backend({.threads = static_cast<int>(threads), .max_isa = parse_cpu_isa(config.device.isa)});
}
#else
constexpr bool kHasCpu = false;
std::unique_ptr<Backend> make_cpu(const RunConfig&) {
  throw ConfigError("device.kind", "this build has no CPU backend", "cpu", "cuda");
}
#endif

#ifdef LITESPARK_HAS_CUDA
constexpr bool kHasCuda = true;
std::unique_ptr<Backend> make_cuda(const RunConfig& config, int ordinal) {
  const bool is_thorough = config.device.matmul_search == "thorough";
  return make_cuda_backend({.ordinal = ordinal,
                            .deterministic = config.deterministic,
                            .matmul_search = is_thorough ? MatmulSearch::kThorough : MatmulSearch::kQuick});
}
#else
constexpr bool kHasCuda = false;
int cuda_device_count() {
  return 0;
}
void* cuda_stream_of(const Backend&) {
  return nullptr;
}
std::unique_ptr<Backend> make_cuda(const RunConfig&, int) {
  throw ConfigError("device.kind", "this build has no CUDA backend", "cuda", "cpu",
                    "build with -DLITESPARK_CUDA=ON, or set device.kind = \"cpu\"");
}
#endif

}  // namespace

std::string linked_backends() {
  return kHasCpu && kHasCuda ? "cpu, cuda" : kHasCuda ? "cuda" : "cpu";
}

int num_gpus() {
  return cuda_device_count();
}

bool wants_cuda(const RunConfig& config) {
  if (config.device.kind != DeviceKind::kAuto) return config.device.kind == DeviceKind::kCuda;
  return cuda_device_count() > 0 || !kHasCpu;
}

std::unique_ptr<Backend> make_backend(const RunConfig& config, int ordinal) {
  return wants_cuda(config) ? make_cuda(config, ordinal) : make_cpu(config);
}

void* compute_stream_of(const Backend& backend) {
  return backend.device() == Device::kCuda ? cuda_stream_of(backend) : nullptr;
}

}  // namespace litespark::cli
