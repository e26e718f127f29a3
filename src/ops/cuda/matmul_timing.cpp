// SPDX-License-Identifier: Apache-2.0
// Times the candidates of one matmul problem where they will run: random data (zeros draw less power and flatter), more
// operand sets than the L2 cache holds, all candidates in turn so that a change of clock meets each of them.
#include <algorithm>
#include <array>

#include "core/checked.h"
#include "ops/cuda/check.h"
#include "ops/cuda/matmul_plan.h"

namespace litespark::cuda {
namespace {

constexpr int kRounds = 3;
constexpr float kMillisecondsPerRound = 1.0f;
constexpr int64_t kMaxSets = 8;
constexpr float kFailed = 1e30f;

/// Device memory for the length of a timing.
class TemporaryMemory {
 public:
  explicit TemporaryMemory(int64_t bytes) {
    if (cudaMalloc(&data_, static_cast<size_t>(bytes)) != cudaSuccess) {
      data_ = nullptr;
      cudaGetLastError();
    }
  }
  ~TemporaryMemory() { cudaFree(data_); }
  TemporaryMemory(const TemporaryMemory&) = delete;
  TemporaryMemory& operator=(const TemporaryMemory&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "matmul timing"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Byte sizes of the operands of one set, each rounded up to the alignment of an allocation.
struct OperandBytes {
  int64_t a, b, d, bias;

  explicit OperandBytes(const MatmulProblem& problem) {
    const GemmLayout layout = gemm_layout(problem);
    const int64_t in_bytes = dtype_bytes(problem.compute);
    const int64_t out_bytes = dtype_bytes(problem.output_dtype());
    a = round_up(layout.m * layout.k * in_bytes, 256);
    b = round_up(layout.n * layout.k * in_bytes, 256);
    d = round_up(layout.m * layout.n * out_bytes, 256);
    bias = problem.has_bias ? round_up(layout.m * out_bytes, 256) : 0;
  }
  int64_t total() const { return a + b + d + bias; }
};

class Bench {
 public:
  Bench(cublasLtHandle_t handle, const DeviceContext& context, const MatmulPlan& plan, const MatmulProblem& problem)
      : handle_(handle),
        stream_(context.stream),
        plan_(plan),
        bytes_(problem),
        num_sets_(std::clamp(2 * context.l2_bytes / std::max(bytes_.total(), int64_t{1}) + 1, int64_t{1}, kMaxSets)),
        memory_(num_sets_ * bytes_.total() + kMatmulWorkspaceBytes) {
    if (memory_.data() == nullptr) return;
    for (int64_t set = 0; set < num_sets_; ++set) {
      char* base = memory_.data() + set * bytes_.total();
      const auto seed = static_cast<uint32_t>(set) * 4;
      const int64_t in_size = dtype_bytes(problem.compute);
      const int64_t out_size = dtype_bytes(problem.output_dtype());
      fill_random(base, problem.compute, bytes_.a / in_size, seed, stream_);
      fill_random(base + bytes_.a, problem.compute, bytes_.b / in_size, seed + 1, stream_);
      fill_random(base + bytes_.a + bytes_.b, problem.output_dtype(), (bytes_.d + bytes_.bias) / out_size, seed + 2,
                  stream_);
    }
  }

  bool ready() const { return memory_.data() != nullptr; }

  /// Milliseconds of `repeats` products in a row; kFailed when the algorithm does not run.
  float milliseconds(const MatmulCandidate& candidate, int repeats) {
    check(cudaEventRecord(start_.get(), stream_), "matmul timing");
    for (int i = 0; i < repeats; ++i) {
      next_set_ = (next_set_ + 1) % num_sets_;
      char* base = memory_.data() + next_set_ * bytes_.total();
      const MatmulPointers pointers{.a = base,
                                    .b = base + bytes_.a,
                                    .d = base + bytes_.a + bytes_.b,
                                    .bias = base + bytes_.a + bytes_.b + bytes_.d,
                                    .workspace = memory_.data() + num_sets_ * bytes_.total(),
                                    .workspace_bytes = kMatmulWorkspaceBytes};
      if (plan_.launch(handle_, stream_, candidate.algorithm, pointers) != CUBLAS_STATUS_SUCCESS) return kFailed;
    }
    check(cudaEventRecord(stop_.get(), stream_), "matmul timing");
    check(cudaEventSynchronize(stop_.get()), "matmul timing");
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, start_.get(), stop_.get()), "matmul timing");
    return elapsed;
  }

 private:
  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  const MatmulPlan& plan_;
  OperandBytes bytes_;
  int64_t num_sets_;
  TemporaryMemory memory_;
  Event start_, stop_;
  int64_t next_set_ = 0;
};

}  // namespace

int fastest_candidate(cublasLtHandle_t handle, const DeviceContext& context, const MatmulPlan& plan,
                      const MatmulProblem& problem, const std::vector<MatmulCandidate>& candidates) {
  Bench bench(handle, context, plan, problem);
  if (!bench.ready() || candidates.empty()) return -1;
  std::vector<int> repeats(candidates.size(), 0);
  for (size_t i = 0; i < candidates.size(); ++i) {
    bench.milliseconds(candidates[i], 1);  // loads the kernel
    const float once = bench.milliseconds(candidates[i], 1);
    if (once < kFailed) repeats[i] = std::clamp(static_cast<int>(kMillisecondsPerRound / (once + 1e-3f)), 1, 20);
  }
  std::vector<std::array<float, kRounds>> times(candidates.size());
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      times[i][round] =
          repeats[i] == 0 ? kFailed : bench.milliseconds(candidates[i], repeats[i]) / static_cast<float>(repeats[i]);
    }
  }
  int best = -1;
  float best_time = kFailed;
  for (size_t i = 0; i < candidates.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    const float median = times[i][kRounds / 2];
    if (median < best_time) {
      best_time = median;
      best = static_cast<int>(i);
    }
  }
  return best;
}

}  // namespace litespark::cuda
