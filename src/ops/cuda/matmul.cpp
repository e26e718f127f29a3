// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/matmul.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/matmul_plan.h"

namespace litespark::cuda {
MatmulProblem problem_of(const op::MatmulForward<Tensor>& op) {
  return {.kind = MatmulKind::kForward,
          .rows = op.x.rows(),
          .in_features = op.in_features,
          .out_features = op.out_features,
          .compute = op.x.dtype,
          .has_bias = op.bias.has_value(),
          .alignment_bytes = common_alignment(op.y.data, op.x.data, op.weight.data)};
}

MatmulProblem problem_of(const op::MatmulBackwardInput<Tensor>& op) {
  return {.kind = MatmulKind::kBackwardInput,
          .rows = op.dy.rows(),
          .in_features = op.in_features,
          .out_features = op.out_features,
          .compute = op.dy.dtype,
          .accumulate = op.accumulate,
          .alignment_bytes = common_alignment(op.dx.data, op.dy.data, op.weight.data)};
}

MatmulProblem problem_of(const op::MatmulBackwardWeight<Tensor>& op) {
  return {.kind = MatmulKind::kBackwardWeight,
          .rows = op.dy.rows(),
          .in_features = op.x.columns(),
          .out_features = op.dy.columns(),
          .compute = op.dy.dtype,
          .accumulate = op.accumulate,
          .gradient = op.dweight.dtype,
          .alignment_bytes = common_alignment(op.dweight.data, op.dy.data, op.x.data)};
}

namespace {

/// Proposals asked for. The library gives what it has, best guess first; the thorough search takes all.
constexpr int kQuickProposals = 24;
constexpr int kThoroughProposals = 256;

}  // namespace

MatmulPointers with_workspace(MatmulPointers pointers, const Tensor& scratch, const MatmulProblem& problem) {
  pointers.workspace_bytes = workspace_bytes_of(scratch, problem);
  if (pointers.workspace_bytes > 0) {
    pointers.workspace = static_cast<char*>(scratch.data) + bias_copy_bytes(problem);
  }
  return pointers;
}

const void* bias_in_output_dtype(const Tensor& bias, const Tensor& scratch, const MatmulProblem& problem,
                                 cudaStream_t stream) {
  const int64_t bias_bytes = bias_copy_bytes(problem);
  if (bias_bytes == 0) return bias.data;
  if (!scratch.has_value() || scratch.bytes() < bias_bytes) {
    throw InternalError("matmul", "scratch too small for the bias", scratch.bytes(), bias_bytes);
  }
  round_to_bf16(scratch.data, bias.as<float>(), problem.out_features, stream);
  return scratch.data;
}

int64_t bias_copy_bytes(const MatmulProblem& problem) {
  return problem.has_bias && problem.output_dtype() == DType::kBF16 ? round_up(2 * problem.out_features, 256) : 0;
}

int64_t workspace_bytes_of(const Tensor& scratch, const MatmulProblem& problem) {
  return scratch.has_value() ? std::max(scratch.bytes() - bias_copy_bytes(problem), int64_t{0}) : 0;
}

MatmulLibrary::MatmulLibrary(const DeviceContext& context, MatmulSearch search)
    : context_(context),
      search_(search),
      library_version_("cublaslt=" + std::to_string(cublasLtGetVersion())),
      device_("sm_" + std::to_string(context.compute_capability) + "x" + std::to_string(context.num_multiprocessors)) {
  check(cublasLtCreate(&handle_), "matmul library");
}

MatmulLibrary::~MatmulLibrary() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

MatmulPlan& MatmulLibrary::plan_of(const MatmulProblem& problem) {
  std::unique_ptr<MatmulPlan>& plan = plans_[problem];
  if (!plan) plan = std::make_unique<MatmulPlan>(problem);
  return *plan;
}

void MatmulLibrary::choose(MatmulPlan& plan, const MatmulProblem& problem, int64_t workspace_bytes, bool timed) {
  const std::string key = tuning_key(problem, library_version_, device_);
  if (const auto known = choices_.find(key); known != choices_.end()) {
    cublasLtMatmulHeuristicResult_t result{};
    plan.algorithm = parse_algorithm(known->second);
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle_, plan.description.get(), plan.a.get(), plan.b.get(),
                                                          plan.d.get(), plan.d.get(), &plan.algorithm, &result);
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw DataError("matmul tuning", "cuBLASLt refuses the choice of the tuning file or checkpoint", key,
                      "one that it made on such a machine; device.tuning_file = \"none\" times again");
    }
    plan.workspace_bytes = static_cast<int64_t>(result.workspaceSize);
    plan.chosen = plan.timed = true;
    used_.insert(key);
    return;
  }
  const int proposals = search_ == MatmulSearch::kThorough ? kThoroughProposals : kQuickProposals;
  std::vector<MatmulCandidate> candidates =
      matmul_candidates(handle_, plan, problem, {.workspace_bytes = workspace_bytes, .count = proposals});
  if (candidates.empty()) throw DeviceError("matmul", "cuBLASLt has no algorithm", key, "a supported product");
  int best = 0;
  if (timed) best = fastest_candidate(handle_, context_, plan, problem, candidates, TimingLength::kShort);
  plan.timed = timed && best >= 0;
  MatmulCandidate choice = candidates[static_cast<size_t>(std::max(best, 0))];
  if (plan.timed && search_ == MatmulSearch::kThorough) {
    candidates = matmul_neighbours(handle_, plan, choice, workspace_bytes);
    candidates.insert(candidates.begin(), choice);
    best = fastest_candidate(handle_, context_, plan, problem, candidates, TimingLength::kSustained);
    choice = candidates[static_cast<size_t>(std::max(best, 0))];
  }
  plan.algorithm = choice.algorithm;
  plan.workspace_bytes = choice.workspace_bytes;
  plan.chosen = true;
  if (!plan.timed) return;
  choices_[key] = algorithm_text(plan.algorithm);
  used_.insert(key);
}

void MatmulLibrary::tune(const MatmulProblem& problem, int64_t workspace_bytes) {
  if (problem.rows == 0) return;
  MatmulPlan& plan = plan_of(problem);
  if (!plan.timed) choose(plan, problem, workspace_bytes, true);
}

void MatmulLibrary::run(const MatmulProblem& problem, const MatmulPointers& pointers) {
  MatmulPlan& plan = plan_of(problem);
  if (!plan.chosen) choose(plan, problem, pointers.workspace_bytes, false);
  if (pointers.workspace_bytes < plan.workspace_bytes) {
    throw InternalError("matmul", "scratch too small", pointers.workspace_bytes, plan.workspace_bytes);
  }
  check(plan.launch(handle_, context_.stream, plan.algorithm, pointers), "matmul");
}

std::map<std::string, std::string> MatmulLibrary::tuning() const {
  std::map<std::string, std::string> used;
  for (const std::string& key : used_) used.insert(*choices_.find(key));
  return used;
}

void MatmulLibrary::set_tuning(const std::map<std::string, std::string>& choices) {
  for (const auto& [key, text] : choices) {
    parse_algorithm(text);
    choices_.insert_or_assign(key, text);
  }
}

void MatmulLibraryDeleter::operator()(MatmulLibrary* library) const {
  delete library;
}

MatmulLibraryPtr make_matmul_library(const DeviceContext& context, const CudaOptions& options) {
  return MatmulLibraryPtr(new MatmulLibrary(context, options.matmul_search));
}

void CudaBackend::run(const op::MatmulForward<Tensor>& op) {
  const MatmulProblem problem = problem_of(op);
  if (problem.rows == 0) return;
  const MatmulPointers pointers{.a = op.weight.data,
                                .b = op.x.data,
                                .d = op.y.data,
                                .bias = bias_in_output_dtype(op.bias, op.scratch, problem, context_.stream)};
  matmul_->run(problem, with_workspace(pointers, op.scratch, problem));
}

void CudaBackend::run(const op::MatmulBackwardInput<Tensor>& op) {
  const MatmulProblem problem = problem_of(op);
  if (problem.rows == 0) return;
  const MatmulPointers pointers{.a = op.weight.data, .b = op.dy.data, .d = op.dx.data};
  matmul_->run(problem, with_workspace(pointers, op.scratch, problem));
}

void CudaBackend::run(const op::MatmulBackwardWeight<Tensor>& op) {
  const MatmulProblem problem = problem_of(op);
  if (problem.rows == 0) {
    if (!op.accumulate) {
      check(cudaMemsetAsync(op.dweight.data, 0, static_cast<size_t>(op.dweight.bytes()), context_.stream),
            "matmul_backward_weight");
    }
    return;
  }
  const MatmulPointers pointers{.a = op.x.data, .b = op.dy.data, .d = op.dweight.data};
  matmul_->run(problem, with_workspace(pointers, op.scratch, problem));
}

/// The weights are used as they are; this backend asks for no packed copies.
void CudaBackend::run(const op::PackWeight<Tensor>&) {
  throw InternalError("pack_weight", "the CUDA backend packs no weights");
}

}  // namespace litespark::cuda
