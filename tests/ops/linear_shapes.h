// SPDX-License-Identifier: Apache-2.0
// Sizes of linear layers for the tests of every backend.
#pragma once

#include <cstdint>

namespace litespark::test {

struct LinearSize {
  int64_t rows, inputs, outputs;
};

/// One of everything, sizes off every block, a few rows and many, several panels of tokens.
inline constexpr LinearSize kLinearSizes[] = {{1, 1, 1},     {1, 97, 33},    {97, 257, 1}, {5, 64, 130}, {257, 97, 97},
                                              {300, 31, 64}, {1030, 16, 40}, {2500, 5, 7}, {33, 1, 1100}};

}  // namespace litespark::test
