// SPDX-License-Identifier: Apache-2.0
#include "reference/gated.h"

#include <type_traits>

#include "reference/matmul.h"
#include "reference/swiglu.h"

namespace litespark::reference {
namespace {

template <class Real>
std::vector<double> between(DType dtype, std::vector<double> values) {
  if constexpr (std::is_same_v<Real, float>) {
    for (double& value : values) value = test::round_to(dtype, value);
  }
  return values;
}

}  // namespace

template <class Real>
test::Values evaluate(const op::GatedForward<Tensor>& op, const test::Values& in) {
  const op::MatmulForward<Tensor> product{
      .x = op.x, .in_features = op.x.columns(), .out_features = op.gate_up.columns()};
  test::Values result{.tensors = {{"gate_up", evaluate<Real>(product, in).at("y")}}, .state = in.state};
  test::Values inner{.tensors = {{"gate_up", between<Real>(op.h.dtype, result.at("gate_up"))}}, .state = in.state};
  result.tensors["h"] = evaluate<Real>(op::SwiGluForward<Tensor>{.h = op.h}, inner).at("h");
  return result;
}

template <class Real>
test::Values evaluate(const op::GatedBackward<Tensor>& op, const test::Values& in) {
  const op::MatmulBackwardInput<Tensor> product{
      .dy = op.dout, .in_features = op.weight.columns(), .out_features = op.dout.columns()};
  test::Values outer{.tensors = {{"dy", in.at("dout")}, {"weight", in.at("weight")}}, .state = in.state};
  test::Values inner{.tensors = {{"dh", between<Real>(op.dout.dtype, evaluate<Real>(product, outer).at("dx"))},
                                 {"gate_up", in.at("gate_up")}},
                     .state = in.state};
  Tensor dh = op.dout;
  dh.shape = {op.dout.rows(), op.weight.columns()};
  return evaluate<Real>(op::SwiGluBackward<Tensor>{.dh = dh}, inner);
}

template test::Values evaluate<double>(const op::GatedForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::GatedForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::GatedBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::GatedBackward<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
