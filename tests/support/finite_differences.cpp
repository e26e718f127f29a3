// SPDX-License-Identifier: Apache-2.0
#include "support/finite_differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace litespark::test {

void expect_gradient(const std::string& what, const std::vector<double>& point, const std::vector<double>& gradient,
                     const std::function<double(const std::vector<double>&)>& loss) {
  ASSERT_EQ(point.size(), gradient.size()) << what;
  double largest = 1e-3;
  for (const double slope : gradient) largest = std::max(largest, std::abs(slope));
  std::vector<double> moved = point;
  for (size_t i = 0; i < point.size(); ++i) {
    const double step = 1e-5 * std::max(1.0, std::abs(point[i]));
    moved[i] = point[i] + step;
    const double above = loss(moved);
    moved[i] = point[i] - step;
    const double below = loss(moved);
    moved[i] = point[i];
    EXPECT_NEAR((above - below) / (2 * step), gradient[i], 1e-6 * largest) << what << ", element " << i;
  }
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace litespark::test
