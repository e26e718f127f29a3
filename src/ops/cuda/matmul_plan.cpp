// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/matmul_plan.h"

#include <array>
#include <cstring>

#include "core/error.h"
#include "core/hex_text.h"

namespace litespark::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kE4M3: return CUDA_R_8F_E4M3;
    case DType::kE5M2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_32F;
  }
}

MatrixLayout make_layout(DType dtype, int64_t rows, int64_t columns, int64_t leading) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, data_type(dtype), static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(columns), leading),
        "matmul layout");
  return MatrixLayout(layout);
}

template <class Value>
void set_attribute(const MatmulDescription& description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)), "matmul description");
}

struct PreferenceDeleter {
  using pointer = cublasLtMatmulPreference_t;
  void operator()(cublasLtMatmulPreference_t preference) const { cublasLtMatmulPreferenceDestroy(preference); }
};
using Preference = std::unique_ptr<void, PreferenceDeleter>;

template <class Value>
void set_attribute(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)), "matmul preference");
}

Preference make_preference(const MatmulProblem& problem, int64_t workspace_bytes) {
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw), "matmul preference");
  Preference preference(raw);
  const auto alignment = static_cast<uint32_t>(problem.alignment_bytes);
  set_attribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes));
  // Partial sums in fp32 through the workspace, added in a fixed order; nothing rounded on the way.
  set_attribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set_attribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set_attribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set_attribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set_attribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  return preference;
}

/// An aligned address that is never read.
const void* const kSomeAddress = reinterpret_cast<const void*>(uintptr_t{256});

int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

void check(cublasStatus_t status, std::string_view what, const std::source_location& where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(what, std::string("cuBLASLt ") + cublasLtGetStatusName(status) + " (" +
                              cublasLtGetStatusString(status) + ") at " + where.file_name() + ":" +
                              std::to_string(where.line()));
}

bool reduces_in_fixed_order(const cublasLtMatmulAlgo_t& algorithm) {
  uint32_t scheme = 0;
  size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof(scheme),
                                             &written),
        "matmul algorithm");
  return scheme == CUBLASLT_REDUCTION_SCHEME_NONE || scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

MatmulPlan::MatmulPlan(const MatmulProblem& problem) {
  const GemmLayout layout = gemm_layout(problem);
  cublasLtMatmulDesc_t raw = nullptr;
  // 32F means real fp32 products for f32 operands (TF32 is another compute type) and fp32 accumulators for bf16.
  check(cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F), "matmul description");
  description.reset(raw);
  set_attribute(description, CUBLASLT_MATMUL_DESC_TRANSA, layout.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set_attribute(description, CUBLASLT_MATMUL_DESC_TRANSB, layout.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (problem.has_bias) set_attribute(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  has_scales = problem.kind == MatmulKind::kScaled;
  if (has_scales) set_scale_attributes(problem);
  a = make_layout(problem.a_dtype(), layout.rows_a(), layout.columns_a(), layout.lda);
  b = make_layout(problem.compute, layout.rows_b(), layout.columns_b(), layout.ldb);
  d = make_layout(problem.output_dtype(), layout.m, layout.n, layout.ldd);
  beta = problem.accumulate ? 1.0f : 0.0f;
  has_bias = problem.has_bias;
}

void MatmulPlan::set_scale_attributes(const MatmulProblem& problem) {
  set_attribute(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(problem.is_fast ? 1 : 0));
  if (problem.has_vector_scales) {
    constexpr auto kVector = static_cast<int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    set_attribute(description, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, kVector);
    set_attribute(description, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, kVector);
  }
  // Heuristics look at whether there are scales; which ones is said at each launch.
  set_scale_pointers(kSomeAddress, kSomeAddress);
}

void MatmulPlan::set_scale_pointers(const void* a_scale, const void* b_scale) const {
  set_attribute(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a_scale);
  set_attribute(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b_scale);
}

cublasStatus_t MatmulPlan::launch(cublasLtHandle_t handle, cudaStream_t stream,
                                  const cublasLtMatmulAlgo_t& launched_algorithm,
                                  const MatmulPointers& pointers) const {
  const float alpha = 1.0f;
  if (has_bias) set_attribute(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
  if (has_scales) set_scale_pointers(pointers.a_scale, pointers.b_scale);
  return cublasLtMatmul(handle, description.get(), &alpha, pointers.a, a.get(), pointers.b, b.get(), &beta, pointers.d,
                        d.get(), pointers.d, d.get(), &launched_algorithm, pointers.workspace,
                        static_cast<size_t>(pointers.workspace_bytes), stream);
}

std::vector<MatmulCandidate> matmul_candidates(cublasLtHandle_t handle, const MatmulPlan& plan,
                                               const MatmulProblem& problem, const ProposalLimits& limits) {
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(limits.count));
  int returned = 0;
  const Preference preference = make_preference(problem, limits.workspace_bytes);
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, plan.description.get(), plan.a.get(), plan.b.get(), plan.d.get(),
                                     plan.d.get(), preference.get(), limits.count, results.data(), &returned);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "matmul heuristics");
  std::vector<MatmulCandidate> candidates;
  for (int i = 0; i < returned; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS || !reduces_in_fixed_order(result.algo)) continue;
    candidates.push_back({.algorithm = result.algo, .workspace_bytes = static_cast<int64_t>(result.workspaceSize)});
  }
  return candidates;
}

std::string algorithm_text(const cublasLtMatmulAlgo_t& algorithm) {
  return hex_text(std::as_bytes(std::span(&algorithm, 1)));
}

cublasLtMatmulAlgo_t parse_algorithm(const std::string& text) {
  std::array<unsigned char, sizeof(cublasLtMatmulAlgo_t)> bytes{};
  if (text.size() != 2 * bytes.size()) {
    throw DataError("matmul tuning", "not an algorithm", text.size(), std::to_string(2 * bytes.size()) + " digits");
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = hex_value(text[2 * i]);
    const int low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) throw DataError("matmul tuning", "not an algorithm", text, "hexadecimal digits");
    bytes[i] = static_cast<unsigned char>(high * 16 + low);
  }
  cublasLtMatmulAlgo_t algorithm{};
  std::memcpy(&algorithm, bytes.data(), sizeof(algorithm));
  return algorithm;
}

}  // namespace litespark::cuda
