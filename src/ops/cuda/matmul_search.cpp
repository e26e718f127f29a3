// SPDX-License-Identifier: Apache-2.0
// Configurations near a good one. The library's heuristics propose tiles for sizes that are multiples of them; where a
// model's are not (1600 columns are 12.5 tiles of 128), a neighbour may waste less of the last wave.
#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/cuda/check.h"
#include "ops/cuda/matmul_plan.h"

namespace litespark::cuda {
namespace {

constexpr uint32_t kMostCustomOptions = 64;

/// All values of a listed capability; empty where the library does not say.
std::vector<uint32_t> listed(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoCapAttributes_t capability) {
  size_t bytes = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algorithm, capability, nullptr, 0, &bytes) != CUBLAS_STATUS_SUCCESS) return {};
  std::vector<uint32_t> values(bytes / sizeof(uint32_t));
  if (values.empty()) return {};
  const cublasStatus_t status = cublasLtMatmulAlgoCapGetAttribute(&algorithm, capability, values.data(), bytes, &bytes);
  return status == CUBLAS_STATUS_SUCCESS ? values : std::vector<uint32_t>{};
}

/// A capability that is one number; 0 where the library does not say.
uint32_t number(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoCapAttributes_t capability) {
  uint32_t value = 0;
  size_t bytes = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoCapGetAttribute(&algorithm, capability, &value, sizeof(value), &bytes);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

/// Collects what differs from one algorithm in one attribute and passes the library's check.
class Neighbourhood {
 public:
  Neighbourhood(cublasLtHandle_t handle, const MatmulPlan& plan, const cublasLtMatmulAlgo_t& center,
                int64_t workspace_bytes)
      : handle_(handle), plan_(plan), center_(center), workspace_bytes_(workspace_bytes) {}

  template <class Value>
  void add(cublasLtMatmulAlgoConfigAttributes_t attribute, Value value) {
    cublasLtMatmulAlgo_t changed = center_;
    if (set(changed, attribute, value)) add(changed);
  }

  /// `parts` sums over k side by side, added in a fixed order in f32.
  void add_split(int32_t parts) {
    cublasLtMatmulAlgo_t changed = center_;
    const uint32_t scheme = parts > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
    if (set(changed, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, parts) &&
        set(changed, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, scheme)) {
      add(changed);
    }
  }

  std::vector<MatmulCandidate> take() { return std::move(found_); }

 private:
  template <class Value>
  static bool set(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, Value value) {
    return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  }

  void add(const cublasLtMatmulAlgo_t& changed) {
    if (std::memcmp(&changed, &center_, sizeof(changed)) == 0 || !reduces_in_fixed_order(changed)) return;
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status =
        cublasLtMatmulAlgoCheck(handle_, plan_.description.get(), plan_.a.get(), plan_.b.get(), plan_.d.get(),
                                plan_.d.get(), &changed, &result);
    const auto needed = static_cast<int64_t>(result.workspaceSize);
    if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS || needed > workspace_bytes_) return;
    found_.push_back({.algorithm = changed, .workspace_bytes = needed});
  }

  cublasLtHandle_t handle_;
  const MatmulPlan& plan_;
  const cublasLtMatmulAlgo_t& center_;
  int64_t workspace_bytes_;
  std::vector<MatmulCandidate> found_;
};

}  // namespace

std::vector<MatmulCandidate> matmul_neighbours(cublasLtHandle_t handle, const MatmulPlan& plan,
                                               const MatmulCandidate& center, int64_t workspace_bytes) {
  const cublasLtMatmulAlgo_t& algorithm = center.algorithm;
  Neighbourhood neighbours(handle, plan, algorithm, workspace_bytes);
  for (const uint32_t tile : listed(algorithm, CUBLASLT_ALGO_CAP_TILE_IDS)) {
    neighbours.add(CUBLASLT_ALGO_CONFIG_TILE_ID, tile);
  }
  for (const uint32_t stages : listed(algorithm, CUBLASLT_ALGO_CAP_STAGES_IDS)) {
    neighbours.add(CUBLASLT_ALGO_CONFIG_STAGES_ID, stages);
  }
  for (uint16_t cluster = CUBLASLT_CLUSTER_SHAPE_AUTO; cluster < CUBLASLT_CLUSTER_SHAPE_END; ++cluster) {
    neighbours.add(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster);
  }
  const uint32_t options = number(algorithm, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX);
  for (uint32_t option = 0; option <= std::min(options, kMostCustomOptions); ++option) {
    neighbours.add(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, option);
  }
  for (uint32_t swizzle = 0; swizzle <= number(algorithm, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT); ++swizzle) {
    neighbours.add(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, swizzle);
  }
  const bool can_split = number(algorithm, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) != 0;
  for (const int32_t parts : {1, 2, 3, 4, 6, 8}) {
    if (can_split) neighbours.add_split(parts);
  }
  return neighbours.take();
}

}  // namespace litespark::cuda
