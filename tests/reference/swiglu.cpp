// SPDX-License-Identifier: Apache-2.0
#include "reference/swiglu.h"

#include <cmath>

#include "reference/real.h"

namespace litespark::reference {

template <class Real>
test::Values evaluate(const op::SwiGluForward<Tensor>& op, const test::Values& in) {
  const size_t width = static_cast<size_t>(op.h.columns());
  const std::vector<Real> gate_up = as_real<Real>(in.at("gate_up"));
  std::vector<Real> h(gate_up.size() / 2);
  for (size_t i = 0; i < h.size(); ++i) {
    const Real gate = gate_up[i / width * 2 * width + i % width];
    const Real up = gate_up[i / width * 2 * width + width + i % width];
    h[i] = gate / (1 + std::exp(-gate)) * up;
  }
  return {.tensors = {{"h", as_double(h)}}, .state = in.state};
}

template <class Real>
test::Values evaluate(const op::SwiGluBackward<Tensor>& op, const test::Values& in) {
  const size_t width = static_cast<size_t>(op.dh.columns());
  const std::vector<Real> gate_up = as_real<Real>(in.at("gate_up"));
  const std::vector<Real> dh = as_real<Real>(in.at("dh"));
  std::vector<Real> dgate_up(gate_up.size());
  for (size_t i = 0; i < dh.size(); ++i) {
    const size_t at_gate = i / width * 2 * width + i % width;
    const size_t at_up = at_gate + width;
    const Real gate = gate_up[at_gate];
    const Real sigmoid = 1 / (1 + std::exp(-gate));
    dgate_up[at_gate] = dh[i] * gate_up[at_up] * sigmoid * (1 + gate * (1 - sigmoid));
    dgate_up[at_up] = dh[i] * gate * sigmoid;
  }
  return {.tensors = {{"dgate_up", as_double(dgate_up)}}, .state = in.state};
}

template test::Values evaluate<double>(const op::SwiGluForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::SwiGluForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::SwiGluBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::SwiGluBackward<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
