// SPDX-License-Identifier: Apache-2.0
#include "reference/rope.h"

#include <cmath>

#include "reference/real.h"

namespace litespark::reference {

template <class Real>
test::Values evaluate(const op::Rope<Tensor>& op, const test::Values& in) {
  std::vector<Real> qkv = as_real<Real>(in.at("qkv"));
  const std::vector<Real> table = as_real<Real>(in.at("table"));
  const std::vector<double>& positions = in.at("positions");
  const size_t dim = static_cast<size_t>(op.head_dim);
  const size_t half = dim / 2;
  for (size_t n = 0; n < positions.size(); ++n) {
    const Real* angles = table.data() + static_cast<size_t>(positions[n]) * dim;
    for (size_t h = 0; h < static_cast<size_t>(op.num_rotated_heads); ++h) {
      Real* head = qkv.data() + (n * static_cast<size_t>(op.num_heads_total) + h) * dim;
      for (size_t i = 0; i < half; ++i) {
        const Real cosine = angles[i];
        const Real sine = op.inverse ? -angles[half + i] : angles[half + i];
        const Real first = head[i];
        const Real second = head[i + half];
        head[i] = first * cosine - second * sine;
        head[i + half] = second * cosine + first * sine;
      }
    }
  }
  return {.tensors = {{"qkv", as_double(qkv)}}, .state = in.state};
}

template test::Values evaluate<double>(const op::Rope<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::Rope<Tensor>& op, const test::Values& in);

std::vector<double> rope_table(int64_t num_positions, int head_dim, double theta) {
  std::vector<double> table;
  for (int64_t position = 0; position < num_positions; ++position) {
    for (const bool sine : {false, true}) {
      for (int i = 0; i < head_dim / 2; ++i) {
        const double angle = static_cast<double>(position) * std::pow(theta, -2.0 * i / head_dim);
        table.push_back(sine ? std::sin(angle) : std::cos(angle));
      }
    }
  }
  return table;
}

}  // namespace litespark::reference
