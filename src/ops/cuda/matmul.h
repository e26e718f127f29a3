// SPDX-License-Identifier: Apache-2.0
// The matmul library of the CUDA backend: cuBLASLt descriptors kept per problem, and the algorithm that was fastest
// when it was timed once. Only algorithms whose result does not depend on the order of atomics are ever considered.
#pragma once

#include <cublasLt.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "core/op/fp8.h"
#include "core/op/matmul.h"
#include "core/tensor.h"
#include "ops/cuda/device_context.h"
#include "ops/cuda/heuristics/matmul_layout.h"

namespace litespark::cuda {

/// What cuBLASLt may use beside the operands; taken from the op's scratch. 32 MiB is NVIDIA's advice for Hopper.
inline constexpr int64_t kMatmulWorkspaceBytes = int64_t{32} << 20;

MatmulProblem problem_of(const op::MatmulForward<Tensor>& op);
MatmulProblem problem_of(const op::MatmulBackwardInput<Tensor>& op);
MatmulProblem problem_of(const op::MatmulBackwardWeight<Tensor>& op);
MatmulProblem problem_of(const op::ScaledMatmul<Tensor>& op);

/// Bytes at the start of a forward's scratch that hold the bias in bf16, which the bf16 epilogue wants.
int64_t bias_copy_bytes(const MatmulProblem& problem);
/// What is left of an op's scratch for cuBLASLt; 0 without one.
int64_t workspace_bytes_of(const Tensor& scratch, const MatmulProblem& problem);

struct MatmulPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;     ///< in the output's dtype
  const void* a_scale = nullptr;  ///< scaled products only
  const void* b_scale = nullptr;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

/// Scratch behind the bias copy goes to the library.
MatmulPointers with_workspace(MatmulPointers pointers, const Tensor& scratch, const MatmulProblem& problem);
/// `bias` as the epilogue takes it: itself, or rounded to bf16 at the start of `scratch`. Throws InternalError when
/// that is too small.
const void* bias_in_output_dtype(const Tensor& bias, const Tensor& scratch, const MatmulProblem& problem,
                                 cudaStream_t stream);

/// Descriptors of one problem and the algorithm chosen for it.
struct MatmulPlan;

class MatmulLibrary {
 public:
  MatmulLibrary(const DeviceContext& context, MatmulSearch search);
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  /// Times the library's best guesses on random data of the problem's shape and keeps the fastest, unless a choice is
  /// known already. Uses temporary device memory for the operands; when that is not to be had, the library's first
  /// guess stays. Algorithms that need more than `workspace_bytes` are left out. Never inside a captured graph.
  void tune(const MatmulProblem& problem, int64_t workspace_bytes);

  /// D = op(A) op(B) (+ D when the problem accumulates) (+ bias).
  /// Throws DeviceError when cuBLASLt has no algorithm for the problem.
  void run(const MatmulProblem& problem, const MatmulPointers& pointers);

  /// Every timed choice in use: problem, library version and device -> algorithm in hexadecimal.
  std::map<std::string, std::string> tuning() const;
  /// Choices made earlier, for example in a checkpoint; added to those known, the later ones win. Entries of other
  /// problems, library versions or devices never match. Must come before the problems are tuned or run.
  void set_tuning(const std::map<std::string, std::string>& choices);

 private:
  MatmulPlan& plan_of(const MatmulProblem& problem);
  /// Sets the plan's algorithm: a known choice, else the fastest (`timed`) or first proposal that needs at most
  /// `workspace_bytes`.
  void choose(MatmulPlan& plan, const MatmulProblem& problem, int64_t workspace_bytes, bool timed);

  const DeviceContext& context_;
  MatmulSearch search_;
  cublasLtHandle_t handle_ = nullptr;
  std::string library_version_;
  std::string device_;
  std::map<MatmulProblem, std::unique_ptr<MatmulPlan>> plans_;
  std::map<std::string, std::string> choices_;
  std::set<std::string> used_;  ///< keys of choices_ that a problem of this process matched
};

}  // namespace litespark::cuda
