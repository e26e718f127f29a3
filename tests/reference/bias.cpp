// SPDX-License-Identifier: Apache-2.0
#include "reference/bias.h"

#include "reference/real.h"

namespace litespark::reference {

template <class Real>
test::Values evaluate(const op::BiasBackward<Tensor>& op, const test::Values& in) {
  const size_t columns = static_cast<size_t>(op.dy.columns());
  const std::vector<Real> dy = as_real<Real>(in.at("dy"));
  std::vector<Real> dbias(columns);
  if (op.accumulate) dbias = as_real<Real>(in.at("dbias"));
  for (size_t i = 0; i < dy.size(); ++i) dbias[i % columns] += dy[i];
  return {.tensors = {{"dbias", as_double(dbias)}}, .state = in.state};
}

template test::Values evaluate<double>(const op::BiasBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::BiasBackward<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
