// SPDX-License-Identifier: Apache-2.0
// Before the first step: matmul algorithms are timed and attention plans built, one op at a time. Later calls find what
// they need and do nothing that a captured graph could not record.
#include <variant>

#include "ops/cuda/attention.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/gated_choice.h"
#include "ops/cuda/matmul.h"

namespace litespark::cuda {

void CudaBackend::prepare(const op::AnyOp<Tensor>& op) {
  std::visit(
      [this]<class Op>(const Op& one) {
        if constexpr (requires { problem_of(one); }) {
          const MatmulProblem problem = problem_of(one);
          matmul_->tune(problem, workspace_bytes_of(one.scratch, problem));
        } else if constexpr (requires { attention_->prepare(one); }) {
          attention_->prepare(one);
        } else if constexpr (requires { prepare_gated(one); }) {
          prepare_gated(one);
        } else if constexpr (requires { one.ticket; }) {
          prepare_offload(*offload_, one.ticket);
        }
      },
      op);
}

std::map<std::string, std::string> CudaBackend::tuning() const {
  std::map<std::string, std::string> choices = matmul_->tuning();
  choices.merge(attention_->choices());
  choices.merge(gated_->tuning());
  return choices;
}

void CudaBackend::set_tuning(const std::map<std::string, std::string>& choices) {
  std::map<std::string, std::string> matmul;
  std::map<std::string, std::string> attention;
  std::map<std::string, std::string> gated;
  for (const auto& [key, choice] : choices) {
    (key.starts_with("matmul") ? matmul : key.starts_with("gated") ? gated : attention)[key] = choice;
  }
  matmul_->set_tuning(matmul);
  gated_->set_tuning(gated);
  attention_->set_choices(attention);
}

}  // namespace litespark::cuda
