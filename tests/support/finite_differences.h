// SPDX-License-Identifier: Apache-2.0
// Holds a reference's gradient against central differences of its own forward pass, in double.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/values.h"

namespace litespark::test {

/// Reports a test failure where `gradient` is not the derivative of `loss` at `point`: central differences with a step
/// of 1e-5 (relative to values above 1), so agreement to about 1e-8 of the largest slope; the limit is 1e-6.
void expect_gradient(const std::string& what, const std::vector<double>& point, const std::vector<double>& gradient,
                     const std::function<double(const std::vector<double>&)>& loss);

/// sum of a[i] * b[i]: a scalar loss whose gradient with respect to `a` is `b`.
double dot(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace litespark::test
