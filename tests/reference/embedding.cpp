// SPDX-License-Identifier: Apache-2.0
#include "reference/embedding.h"

#include "reference/real.h"

namespace litespark::reference {

template <class Real>
test::Values evaluate(const op::EmbeddingForward<Tensor>& op, const test::Values& in) {
  const auto& table = in.at("table");
  const auto& ids = in.at("ids");
  const size_t channels = static_cast<size_t>(op.table.columns());
  test::Values result{.tensors = {}, .state = in.state};
  auto& out = result.tensors["out"];
  out.assign(ids.size() * channels, 0.0);
  for (size_t n = 0; n < ids.size(); ++n) {
    if (ids[n] < 0 || ids[n] >= static_cast<double>(op.table.rows())) {
      ++result.state.bad_tokens;
      continue;
    }
    for (size_t c = 0; c < channels; ++c) out[n * channels + c] = table[static_cast<size_t>(ids[n]) * channels + c];
  }
  return result;
}

template <class Real>
test::Values evaluate(const op::EmbeddingBackward<Tensor>& op, const test::Values& in) {
  const auto& dout = in.at("dout");
  const auto& ids = in.at("ids");
  const size_t channels = static_cast<size_t>(op.dtable.columns());
  std::vector<Real> dtable(static_cast<size_t>(op.dtable.num_elements()));
  if (op.accumulate) dtable = as_real<Real>(in.at("dtable"));
  for (size_t n = 0; n < ids.size(); ++n) {
    if (ids[n] < 0 || ids[n] >= static_cast<double>(op.dtable.rows())) continue;
    for (size_t c = 0; c < channels; ++c) {
      dtable[static_cast<size_t>(ids[n]) * channels + c] += static_cast<Real>(dout[n * channels + c]);
    }
  }
  return {.tensors = {{"dtable", as_double(dtable)}}, .state = in.state};
}

template test::Values evaluate<double>(const op::EmbeddingForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::EmbeddingForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::EmbeddingBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::EmbeddingBackward<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
