// SPDX-License-Identifier: Apache-2.0
// The backend's matmul ops: handed to the library object, which owns primitives and blocking.
#include <type_traits>
#include <variant>

#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/matmul_library.h"

namespace litespark::cpu {

const BackendSizes& CpuBackend::sizes() const {
  return *matmul_;
}

void CpuBackend::prepare(const op::AnyOp<Tensor>& op) {
  std::visit(
      [&](const auto& alternative) {
        if constexpr (requires { matmul_->prepare(alternative); }) matmul_->prepare(alternative);
      },
      op);
}

void CpuBackend::run(const op::MatmulForward<Tensor>& op) {
  matmul_->run(op);
}

void CpuBackend::run(const op::MatmulBackwardInput<Tensor>& op) {
  matmul_->run(op);
}

void CpuBackend::run(const op::MatmulBackwardWeight<Tensor>& op) {
  matmul_->run(op);
}

void CpuBackend::run(const op::PackWeight<Tensor>& op) {
  matmul_->run(op);
}

}  // namespace litespark::cpu
