// SPDX-License-Identifier: Apache-2.0
// How the three products of a linear layer, written on row-major tensors, become one column-major D = op(A) op(B).
// A row-major [R, C] tensor is a column-major C x R matrix with leading dimension C: nothing is ever copied.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace litespark::cuda {

/// kScaled: any of the three on 8-bit copies, out [N, O] = a [N, I] b [O, I]^T with scales.
enum class MatmulKind : uint8_t { kForward, kBackwardInput, kBackwardWeight, kScaled };

inline const char* matmul_kind_name(MatmulKind kind) {
  switch (kind) {
    case MatmulKind::kForward: return "forward";
    case MatmulKind::kBackwardInput: return "backward_input";
    case MatmulKind::kBackwardWeight: return "backward_weight";
    case MatmulKind::kScaled: return "scaled";
  }
  return "";
}

/// One product of y [N, O] = x [N, I] w [O, I]^T, as a backend meets it.
struct MatmulProblem {
  MatmulKind kind = MatmulKind::kForward;
  int64_t rows = 0;          ///< N
  int64_t in_features = 0;   ///< I
  int64_t out_features = 0;  ///< O
  DType compute = DType::kBF16;
  bool has_bias = false;
  bool accumulate = false;
  DType gradient = DType::kF32;    ///< of kBackwardWeight's output
  DType weight = DType::kBF16;     ///< kScaled: of b, where `compute` is a's
  DType output = DType::kBF16;     ///< kScaled
  bool has_vector_scales = false;  ///< kScaled: one a row of a and b, else one each
  bool is_fast = false;            ///< kScaled: partial sums may stay in the tensor cores' accumulators
  int alignment_bytes = 16;        ///< of the least aligned operand: 2, 4, 8 or 16 (what vector loads can use)

  auto operator<=>(const MatmulProblem&) const = default;

  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(in_features) * static_cast<double>(out_features);
  }
  DType output_dtype() const {
    if (kind == MatmulKind::kScaled) return output;
    return kind == MatmulKind::kBackwardWeight ? gradient : compute;
  }
  /// Of the operand that GemmLayout calls A; B is always in `compute`.
  DType a_dtype() const { return kind == MatmulKind::kScaled ? weight : compute; }
};

/// Column-major D [m x n] = op(A) op(B), summed over k.
/// A is the weight (forward, backward_input) or x (backward_weight); B is x (forward) or dy (both gradients). Of a
/// scaled product A is b and B is a.
struct GemmLayout {
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldd = 0;

  int64_t rows_a() const { return transpose_a ? k : m; }
  int64_t columns_a() const { return transpose_a ? m : k; }
  int64_t rows_b() const { return transpose_b ? n : k; }
  int64_t columns_b() const { return transpose_b ? k : n; }
};

inline GemmLayout gemm_layout(const MatmulProblem& problem) {
  const int64_t rows = problem.rows;
  const int64_t in = problem.in_features;
  const int64_t out = problem.out_features;
  switch (problem.kind) {
    case MatmulKind::kScaled:
    case MatmulKind::kForward:  // y^T [O x N] = w [O x I] x^T [I x N]
      return {.transpose_a = true, .m = out, .n = rows, .k = in, .lda = in, .ldb = in, .ldd = out};
    case MatmulKind::kBackwardInput:  // dx^T [I x N] = w^T [I x O] dy^T [O x N]
      return {.m = in, .n = rows, .k = out, .lda = in, .ldb = out, .ldd = in};
    case MatmulKind::kBackwardWeight:  // dw^T [I x O] = x^T [I x N] dy [N x O]
      return {.transpose_b = true, .m = in, .n = out, .k = rows, .lda = in, .ldb = out, .ldd = in};
  }
  return {};
}

/// Largest power of two, at most 16, that divides every address.
template <class... Pointers>
int common_alignment(const Pointers*... pointers) {
  uintptr_t bits = 16;
  ((bits |= reinterpret_cast<uintptr_t>(pointers)), ...);
  return static_cast<int>(bits & (~bits + 1));
}

/// What a scaled product has beside the others.
inline std::string scaled_text(const MatmulProblem& problem) {
  if (problem.kind != MatmulKind::kScaled) return "";
  return " x " + std::string(dtype_name(problem.weight)) + " -> " + std::string(dtype_name(problem.output)) +
         (problem.has_vector_scales ? " scale=row" : "") + (problem.is_fast ? " fast" : "");
}

/// Name of the problem in the tuning table; `library` and `device` make a choice valid only where it was made.
inline std::string tuning_key(const MatmulProblem& problem, const std::string& library, const std::string& device) {
  return std::string("matmul_") + matmul_kind_name(problem.kind) + " n=" + std::to_string(problem.rows) +
         " i=" + std::to_string(problem.in_features) + " o=" + std::to_string(problem.out_features) + " " +
         std::string(dtype_name(problem.compute)) + (problem.has_bias ? " bias" : "") +
         (problem.accumulate ? " accumulate" : "") +
         (problem.gradient == DType::kF32 ? "" : " gradient=" + std::string(dtype_name(problem.gradient))) +
         scaled_text(problem) + " align=" + std::to_string(problem.alignment_bytes) + " " + library + " " + device;
}

}  // namespace litespark::cuda
