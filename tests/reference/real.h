// SPDX-License-Identifier: Apache-2.0
// Between the doubles of a test's values and the type that a reference computes in.
#pragma once

#include <vector>

namespace litespark::reference {

template <class Real>
std::vector<Real> as_real(const std::vector<double>& values) {
  std::vector<Real> result;
  result.reserve(values.size());
  for (const double value : values) result.push_back(static_cast<Real>(value));
  return result;
}

template <class Real>
std::vector<double> as_double(const std::vector<Real>& values) {
  return {values.begin(), values.end()};
}

}  // namespace litespark::reference
