// SPDX-License-Identifier: Apache-2.0
// Times the candidates of one matmul problem where they will run: random data (zeros draw less power and flatter), more
// operand sets than the L2 cache holds, after a load that brings clocks down to where training holds them. All are
// timed once; those near the best meet again in several rounds, in turn, so that a change of clock meets each of them.
// A sustained timing ends with the last few running alone for long: an algorithm that draws less power is the faster
// one once the power limit holds the clock down, which a turn of milliseconds does not show (up to 6 % on one H200, see
// bench/results/2026-11-29-h200-matmul-sustained.txt).
#include <algorithm>
#include <numeric>

#include "core/checked.h"
#include "ops/cuda/check.h"
#include "ops/cuda/matmul_plan.h"
#include "ops/cuda/temporary_memory.h"

namespace litespark::cuda {
namespace {

constexpr int kRounds = 9;
constexpr float kFirstMilliseconds = 1.0f;  ///< of each candidate in the first round
constexpr float kRoundMilliseconds = 2.0f;  ///< of each contender in the others
constexpr int kWarmUpRounds = 8;
constexpr float kContenderRatio = 1.08f;  ///< to the best of the first round
constexpr size_t kMaxContenders = 6;
constexpr float kFirstGuessRatio = 1.005f;  ///< the library's first guess wins ties: noise decides nothing
constexpr int64_t kMaxSets = 8;
constexpr float kFinalistRatio = 1.06f;  ///< to the best of the rounds
constexpr size_t kMaxFinalists = 4;
constexpr int kSustainedTurns = 2;
constexpr float kSustainedMilliseconds = 120.0f;  ///< of each finalist a turn; a third more before it is not counted
constexpr float kFailed = 1e30f;

/// Byte sizes of the operands of one set, each rounded up to the alignment of an allocation.
struct OperandBytes {
  int64_t a, b, d, bias, scales, a_scales;

  explicit OperandBytes(const MatmulProblem& problem) {
    const GemmLayout layout = gemm_layout(problem);
    const int64_t out_bytes = dtype_bytes(problem.output_dtype());
    a = round_up(layout.m * layout.k * dtype_bytes(problem.a_dtype()), 256);
    b = round_up(layout.n * layout.k * dtype_bytes(problem.compute), 256);
    d = round_up(layout.m * layout.n * out_bytes, 256);
    bias = problem.has_bias ? round_up(layout.m * out_bytes, 256) : 0;
    scales = problem.kind == MatmulKind::kScaled ? round_up(4 * layout.m, 256) + round_up(4 * layout.n, 256) : 0;
    a_scales = problem.kind == MatmulKind::kScaled ? round_up(4 * layout.m, 256) : 0;
  }
  int64_t total() const { return a + b + d + bias + scales; }
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
      const int64_t out_size = dtype_bytes(problem.output_dtype());
      fill_random(base, problem.a_dtype(), bytes_.a / dtype_bytes(problem.a_dtype()), seed, stream_);
      fill_random(base + bytes_.a, problem.compute, bytes_.b / dtype_bytes(problem.compute), seed + 1, stream_);
      fill_random(base + bytes_.a + bytes_.b, problem.output_dtype(), (bytes_.d + bytes_.bias) / out_size, seed + 2,
                  stream_);
      fill_random(base + bytes_.total() - bytes_.scales, DType::kF32, bytes_.scales / 4, seed + 3, stream_);
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
                                    .a_scale = base + bytes_.total() - bytes_.scales,
                                    .b_scale = base + bytes_.total() - bytes_.scales + bytes_.a_scales,
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

/// Milliseconds of one product when it is repeated for about `milliseconds`; kFailed for one that does not run.
float time_one(Bench& bench, const MatmulCandidate& candidate, float estimate, float milliseconds) {
  if (estimate >= kFailed) return kFailed;
  const int repeats = std::clamp(static_cast<int>(milliseconds / (estimate + 1e-3f)), 1, 64);
  return bench.milliseconds(candidate, repeats) / static_cast<float>(repeats);
}

float median(std::vector<float> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Indices of the candidates worth another look, the fastest first; candidate 0 is always among them when it runs.
std::vector<size_t> contenders_of(const std::vector<float>& times) {
  std::vector<size_t> order(times.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return times[a] < times[b]; });
  const float limit = times[order[0]] * kContenderRatio;
  std::vector<size_t> contenders;
  for (const size_t i : order) {
    if (times[i] < kFailed && (i == 0 || (times[i] <= limit && contenders.size() < kMaxContenders))) {
      contenders.push_back(i);
    }
  }
  return contenders;
}

/// Median times of the contenders over kRounds rounds.
std::vector<float> run_rounds(Bench& bench, const std::vector<MatmulCandidate>& candidates,
                              const std::vector<size_t>& contenders, const std::vector<float>& estimates) {
  for (int i = 0; i < kWarmUpRounds; ++i) {
    time_one(bench, candidates[contenders[0]], estimates[contenders[0]], kRoundMilliseconds);
  }
  std::vector<std::vector<float>> samples(contenders.size());
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      const size_t which = (turn + round) % contenders.size();
      const size_t candidate = contenders[which];
      samples[which].push_back(time_one(bench, candidates[candidate], estimates[candidate], kRoundMilliseconds));
    }
  }
  std::vector<float> medians;
  for (const std::vector<float>& times : samples) medians.push_back(median(times));
  return medians;
}

/// Of the contenders (medians as given), the one that is fastest when it runs alone for long.
size_t most_sustained(Bench& bench, const std::vector<MatmulCandidate>& candidates,
                      const std::vector<size_t>& contenders, const std::vector<float>& medians) {
  const float limit = *std::min_element(medians.begin(), medians.end()) * kFinalistRatio;
  std::vector<size_t> finalists;
  for (size_t i = 0; i < contenders.size(); ++i) {
    if (medians[i] <= limit) finalists.push_back(i);
  }
  std::sort(finalists.begin(), finalists.end(), [&](size_t a, size_t b) { return medians[a] < medians[b]; });
  finalists.resize(std::min(finalists.size(), kMaxFinalists));
  if (finalists.size() == 1) return finalists[0];
  std::vector<float> totals(finalists.size(), 0.0f);
  for (int turn = 0; turn < kSustainedTurns; ++turn) {
    for (size_t i = 0; i < finalists.size(); ++i) {
      const MatmulCandidate& candidate = candidates[contenders[finalists[i]]];
      const float estimate = std::max(medians[finalists[i]], 1e-3f);
      const int repeats = std::max(1, static_cast<int>(kSustainedMilliseconds / estimate));
      bench.milliseconds(candidate, repeats / 3);
      totals[i] += bench.milliseconds(candidate, repeats) / static_cast<float>(repeats);
    }
  }
  return finalists[static_cast<size_t>(std::min_element(totals.begin(), totals.end()) - totals.begin())];
}

}  // namespace

int fastest_candidate(cublasLtHandle_t handle, const DeviceContext& context, const MatmulPlan& plan,
                      const MatmulProblem& problem, const std::vector<MatmulCandidate>& candidates,
                      TimingLength length) {
  Bench bench(handle, context, plan, problem);
  if (!bench.ready() || candidates.empty()) return -1;
  std::vector<float> times;
  for (const MatmulCandidate& candidate : candidates) {
    bench.milliseconds(candidate, 1);  // loads the kernel
    times.push_back(time_one(bench, candidate, bench.milliseconds(candidate, 1), kFirstMilliseconds));
  }
  const std::vector<size_t> contenders = contenders_of(times);
  if (contenders.empty()) return -1;
  if (contenders.size() == 1) return static_cast<int>(contenders[0]);
  const std::vector<float> medians = run_rounds(bench, candidates, contenders, times);
  if (length == TimingLength::kSustained) {
    return static_cast<int>(contenders[most_sustained(bench, candidates, contenders, medians)]);
  }
  const auto best = static_cast<size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin());
  for (size_t i = 0; i < contenders.size(); ++i) {
    if (contenders[i] == 0 && medians[i] <= medians[best] * kFirstGuessRatio) return 0;
  }
  return static_cast<int>(contenders[best]);
}

}  // namespace litespark::cuda
