// SPDX-License-Identifier: Apache-2.0
// The products with SwiGLU inside: one Hopper kernel where it was seen to be faster, else the two ops that each stands
// for.
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/gated_choice.h"
#include "ops/cuda/gated_product.h"
#include "ops/gated_parts.h"

namespace litespark::cuda {

void GatedChoicesDeleter::operator()(GatedChoices* choices) const {
  delete choices;
}

GatedChoicesPtr make_gated_choices(const DeviceContext& context) {
  return GatedChoicesPtr(new GatedChoices(context));
}

void CudaBackend::run_apart(const op::GatedForward<Tensor>& op) {
  const GatedForwardParts parts = parts_of(op);
  run(parts.product);
  run(parts.activation);
}

void CudaBackend::run_apart(const op::GatedBackward<Tensor>& op) {
  const GatedBackwardParts parts = parts_of(op);
  run(parts.product);
  run(parts.activation);
}

void CudaBackend::run_joined(const op::GatedForward<Tensor>& op) {
  launch_gated_forward(op, context_);
}

void CudaBackend::run_joined(const op::GatedBackward<Tensor>& op) {
  launch_gated_backward(op, context_);
}

void CudaBackend::run(const op::GatedForward<Tensor>& op) {
  gated_->is_joined(op) ? run_joined(op) : run_apart(op);
}

void CudaBackend::run(const op::GatedBackward<Tensor>& op) {
  gated_->is_joined(op) ? run_joined(op) : run_apart(op);
}

template <class Op>
void CudaBackend::prepare_gated(const Op& op, int64_t depth, int64_t columns) {
  prepare(parts_of(op).product);
  if (!has_gated_product(op.weight.dtype, depth, columns, context_)) return;
  gated_->choose(
      op, {.joined = [this](const Op& one) { run_joined(one); }, .apart = [this](const Op& one) { run_apart(one); }});
}

void CudaBackend::prepare_gated(const op::GatedForward<Tensor>& op) {
  prepare_gated(op, op.x.columns(), op.h.columns());
}

void CudaBackend::prepare_gated(const op::GatedBackward<Tensor>& op) {
  prepare_gated(op, op.dout.columns(), op.weight.columns());
}

}  // namespace litespark::cuda
