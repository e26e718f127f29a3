// SPDX-License-Identifier: Apache-2.0
// The mapping of row-major products to column-major ones, proven by multiplying small integer matrices both ways.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "ops/cuda/heuristics/matmul_layout.h"

namespace litespark::cuda {
namespace {

using Matrix = std::vector<int64_t>;

Matrix numbers(int64_t count, int64_t seed) {
  Matrix values;
  for (int64_t i = 0; i < count; ++i) values.push_back((i * 7 + seed * 13) % 11 - 5);
  return values;
}

/// What a BLAS does: D (column-major, m x n) = op(A) op(B) on column-major operands.
Matrix column_major_product(const GemmLayout& layout, const Matrix& a, const Matrix& b) {
  Matrix d(static_cast<size_t>(layout.ldd * layout.n), 0);
  const auto at = [](const Matrix& matrix, int64_t leading, int64_t row, int64_t column) {
    return matrix.at(static_cast<size_t>(row + column * leading));
  };
  for (int64_t row = 0; row < layout.m; ++row) {
    for (int64_t column = 0; column < layout.n; ++column) {
      int64_t sum = 0;
      for (int64_t k = 0; k < layout.k; ++k) {
        const int64_t left = layout.transpose_a ? at(a, layout.lda, k, row) : at(a, layout.lda, row, k);
        const int64_t right = layout.transpose_b ? at(b, layout.ldb, column, k) : at(b, layout.ldb, k, column);
        sum += left * right;
      }
      d.at(static_cast<size_t>(row + column * layout.ldd)) = sum;
    }
  }
  return d;
}

struct Sizes {
  int64_t rows, in, out;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {2, 3, 5}, {5, 3, 2}, {7, 4, 4}, {1, 6, 9}};

int64_t element(const Matrix& matrix, int64_t columns, int64_t row, int64_t column) {
  return matrix.at(static_cast<size_t>(row * columns + column));
}

TEST(MatmulLayout, ForwardIsRowMajorXTimesTransposedWeight) {
  for (const auto& [rows, in, out] : kSizes) {
    const Matrix x = numbers(rows * in, 1);
    const Matrix weight = numbers(out * in, 2);
    const GemmLayout layout =
        gemm_layout({.kind = MatmulKind::kForward, .rows = rows, .in_features = in, .out_features = out});
    const Matrix y = column_major_product(layout, weight, x);
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t o = 0; o < out; ++o) {
        int64_t sum = 0;
        for (int64_t i = 0; i < in; ++i) sum += element(x, in, n, i) * element(weight, in, o, i);
        ASSERT_EQ(element(y, out, n, o), sum);
      }
    }
  }
}

TEST(MatmulLayout, BackwardInputIsRowMajorGradientTimesWeight) {
  for (const auto& [rows, in, out] : kSizes) {
    const Matrix dy = numbers(rows * out, 3);
    const Matrix weight = numbers(out * in, 2);
    const GemmLayout layout =
        gemm_layout({.kind = MatmulKind::kBackwardInput, .rows = rows, .in_features = in, .out_features = out});
    const Matrix dx = column_major_product(layout, weight, dy);
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t i = 0; i < in; ++i) {
        int64_t sum = 0;
        for (int64_t o = 0; o < out; ++o) sum += element(dy, out, n, o) * element(weight, in, o, i);
        ASSERT_EQ(element(dx, in, n, i), sum);
      }
    }
  }
}

TEST(MatmulLayout, BackwardWeightIsRowMajorTransposedGradientTimesX) {
  for (const auto& [rows, in, out] : kSizes) {
    const Matrix dy = numbers(rows * out, 3);
    const Matrix x = numbers(rows * in, 1);
    const GemmLayout layout =
        gemm_layout({.kind = MatmulKind::kBackwardWeight, .rows = rows, .in_features = in, .out_features = out});
    const Matrix dweight = column_major_product(layout, x, dy);
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        int64_t sum = 0;
        for (int64_t n = 0; n < rows; ++n) sum += element(dy, out, n, o) * element(x, in, n, i);
        ASSERT_EQ(element(dweight, in, o, i), sum);
      }
    }
  }
}

TEST(MatmulLayout, OperandExtentsMatchTheirLeadingDimensions) {
  for (const auto kind : {MatmulKind::kForward, MatmulKind::kBackwardInput, MatmulKind::kBackwardWeight}) {
    const GemmLayout layout = gemm_layout({.kind = kind, .rows = 3, .in_features = 5, .out_features = 7});
    EXPECT_EQ(layout.rows_a(), layout.lda);
    EXPECT_EQ(layout.rows_b(), layout.ldb);
    EXPECT_EQ(layout.m, layout.ldd);
    EXPECT_EQ(layout.m * layout.n * layout.k, 3 * 5 * 7);
  }
}

TEST(MatmulLayout, AlignmentIsThatOfTheLeastAlignedOperand) {
  const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
  EXPECT_EQ(common_alignment(at(4096), at(512)), 16);
  EXPECT_EQ(common_alignment(at(4096), at(520)), 8);
  EXPECT_EQ(common_alignment(at(4098), at(520)), 2);
  EXPECT_EQ(common_alignment(at(0), at(256)), 16);
}

TEST(MatmulLayout, EveryPropertyOfAProblemIsInItsKey) {
  const MatmulProblem base{.rows = 8, .in_features = 16, .out_features = 32};
  std::set<std::string> keys = {tuning_key(base, "lib", "dev")};
  MatmulProblem other = base;
  other.kind = MatmulKind::kBackwardInput;
  EXPECT_TRUE(keys.insert(tuning_key(other, "lib", "dev")).second);
  other = base;
  other.rows = 9;
  EXPECT_TRUE(keys.insert(tuning_key(other, "lib", "dev")).second);
  other = base;
  other.in_features = 32;
  EXPECT_TRUE(keys.insert(tuning_key(other, "lib", "dev")).second);
  other = base;
  other.out_features = 16;
  EXPECT_TRUE(keys.insert(tuning_key(other, "lib", "dev")).second);
  other = base;
  other.compute = DType::kF32;
  EXPECT_TRUE(keys.insert(tuning_key(other, "lib", "dev")).second);
  other = base;
  other.has_bias = true;
  EXPECT_TRUE(keys.insert(tuning_key(other, "lib", "dev")).second);
  other = base;
  other.accumulate = true;
  EXPECT_TRUE(keys.insert(tuning_key(other, "lib", "dev")).second);
  other = base;
  other.alignment_bytes = 2;
  EXPECT_TRUE(keys.insert(tuning_key(other, "lib", "dev")).second);
  EXPECT_TRUE(keys.insert(tuning_key(base, "lib2", "dev")).second);
  EXPECT_TRUE(keys.insert(tuning_key(base, "lib", "dev2")).second);
}

}  // namespace
}  // namespace litespark::cuda
