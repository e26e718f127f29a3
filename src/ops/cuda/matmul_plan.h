// SPDX-License-Identifier: Apache-2.0
// One matmul problem as cuBLASLt sees it: descriptors, the candidates that its heuristics propose, the timing of them.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "ops/cuda/matmul.h"

namespace litespark::cuda {

/// Throws DeviceError naming the status unless it is success.
void check(cublasStatus_t status, std::string_view what,
           const std::source_location& where = std::source_location::current());

template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
struct CublasDeleter {
  using pointer = Handle;
  void operator()(Handle handle) const { kDestroy(handle); }
};
using MatmulDescription = std::unique_ptr<void, CublasDeleter<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>>;
using MatrixLayout = std::unique_ptr<void, CublasDeleter<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>>;

struct MatmulPlan {
  explicit MatmulPlan(const MatmulProblem& problem);

  /// Enqueues the product with `algorithm`.
  cublasStatus_t launch(cublasLtHandle_t handle, cudaStream_t stream, const cublasLtMatmulAlgo_t& algorithm,
                        const MatmulPointers& pointers) const;

  void set_scale_pointers(const void* a_scale, const void* b_scale) const;

  MatmulDescription description;
  MatrixLayout a, b, d;
  float beta = 0;
  bool has_bias = false;
  bool has_scales = false;
  bool chosen = false;
  bool timed = false;
  cublasLtMatmulAlgo_t algorithm{};
  int64_t workspace_bytes = 0;  ///< that `algorithm` needs

 private:
  void set_scale_attributes(const MatmulProblem& problem);
};

struct MatmulCandidate {
  cublasLtMatmulAlgo_t algorithm{};
  int64_t workspace_bytes = 0;
};

/// Whether partial sums, if there are any, stay in f32 and are added in an order that does not depend on time.
bool reduces_in_fixed_order(const cublasLtMatmulAlgo_t& algorithm);

struct ProposalLimits {
  int64_t workspace_bytes = 0;
  int count = 0;
};
/// Proposals of the library's heuristics within `limits`, best guess first, reductions through atomics or a narrow
/// output left out.
std::vector<MatmulCandidate> matmul_candidates(cublasLtHandle_t handle, const MatmulPlan& plan,
                                               const MatmulProblem& problem, const ProposalLimits& limits);

/// Configurations that differ from `center` in one thing (tile, stages, cluster, order of tiles, parts of the sum) and
/// that the library accepts (matmul_search.cpp).
std::vector<MatmulCandidate> matmul_neighbours(cublasLtHandle_t handle, const MatmulPlan& plan,
                                               const MatmulCandidate& center, int64_t workspace_bytes);

/// How long the best of the candidates run before one is taken: a few milliseconds in turn, or each alone until the
/// device's power limit has set in, as in training.
enum class TimingLength : uint8_t { kShort, kSustained };

/// Index of the fastest candidate on random data, -1 when memory for the operands is not to be had or none runs.
int fastest_candidate(cublasLtHandle_t handle, const DeviceContext& context, const MatmulPlan& plan,
                      const MatmulProblem& problem, const std::vector<MatmulCandidate>& candidates,
                      TimingLength length);

/// The 64 opaque bytes of an algorithm as text, and back. Throws DataError on anything but 128 hexadecimal digits.
std::string algorithm_text(const cublasLtMatmulAlgo_t& algorithm);
cublasLtMatmulAlgo_t parse_algorithm(const std::string& text);

/// Fills `count` elements with numbers of a fixed pseudo-random sequence in (-1, 1) (matmul_fill.cu).
void fill_random(void* data, DType dtype, int64_t count, uint32_t seed, cudaStream_t stream);
/// out [count] bf16 = in [count] f32, rounded (matmul_fill.cu).
void round_to_bf16(void* out, const float* in, int64_t count, cudaStream_t stream);

}  // namespace litespark::cuda
