// SPDX-License-Identifier: Apache-2.0
// The register maps of mma.m16n8k16 and the addresses given to ldmatrix: both instructions are emulated on the CPU, and
// the products that the attention kernels chain come out right.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "ops/cuda/device/fragment_maps.h"

namespace litespark::cuda {
namespace {

constexpr int kLanes = 32;
using Pair = std::array<int, 2>;                        // two bf16 of one register
using Fragments = std::array<std::array<Pair, 4>, 32>;  // [lane][register]

struct IntMatrix {
  int rows, columns;
  std::vector<int> values;

  IntMatrix(int rows_, int columns_) : rows(rows_), columns(columns_), values(static_cast<size_t>(rows_ * columns_)) {}
  int& at(int row, int column) { return values.at(static_cast<size_t>(row * columns + column)); }
  int at(int row, int column) const { return values.at(static_cast<size_t>(row * columns + column)); }
};

IntMatrix numbered(int rows, int columns, int seed) {
  IntMatrix matrix(rows, columns);
  for (int i = 0; i < rows * columns; ++i) matrix.values[static_cast<size_t>(i)] = (i * 37 + seed * 11) % 23 - 11;
  return matrix;
}

/// ldmatrix.x4: lane l names row l % 8 of 8 x 8 matrix l / 8; register r of lane l receives elements (l / 4, 2 (l % 4)
/// + half) of matrix r, or with .trans the element at the mirrored place.
template <class Address>
Fragments ldmatrix(const IntMatrix& tile, Address address, bool transposed) {
  Fragments fragments{};
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      for (int half = 0; half < 2; ++half) {
        const int row = transposed ? 2 * (lane % 4) + half : lane / 4;
        const int column = transposed ? lane / 4 : 2 * (lane % 4) + half;
        const TileCoordinate start = address(8 * matrix + row);
        fragments[static_cast<size_t>(lane)][static_cast<size_t>(matrix)][static_cast<size_t>(half)] =
            tile.at(start.row, start.column + column);
      }
    }
  }
  return fragments;
}

/// mma.m16n8k16 with B in registers `first_b` and `first_b` + 1 of `b`.
IntMatrix mma(const Fragments& a, const Fragments& b, int first_b) {
  IntMatrix left(16, 16);
  IntMatrix right(16, 8);
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto l = static_cast<size_t>(lane);
    for (int half = 0; half < 2; ++half) {
      const auto h = static_cast<size_t>(half);
      for (int i = 0; i < 4; ++i) {
        const TileCoordinate at = mma_a(lane, i, half);
        left.at(at.row, at.column) = a[l][static_cast<size_t>(i)][h];
      }
      for (int i = 0; i < 2; ++i) {
        const TileCoordinate at = mma_b(lane, i, half);
        right.at(at.row, at.column) = b[l][static_cast<size_t>(first_b + i)][h];
      }
    }
  }
  IntMatrix product(16, 8);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      for (int k = 0; k < 16; ++k) product.at(row, column) += left.at(row, k) * right.at(k, column);
    }
  }
  return product;
}

TEST(FragmentMaps, EveryElementOfATileHasOneRegister) {
  std::set<std::pair<int, int>> a, b, c;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      for (int half = 0; half < 2; ++half) a.insert({mma_a(lane, i, half).row, mma_a(lane, i, half).column});
      c.insert({mma_c(lane, i).row, mma_c(lane, i).column});
    }
    for (int i = 0; i < 2; ++i) {
      for (int half = 0; half < 2; ++half) b.insert({mma_b(lane, i, half).row, mma_b(lane, i, half).column});
    }
  }
  EXPECT_EQ(a.size(), 256u);
  EXPECT_EQ(b.size(), 128u);
  EXPECT_EQ(c.size(), 128u);
}

TEST(FragmentMaps, RowsTimesRowsIsAProductWithTheTranspose) {
  const IntMatrix queries = numbered(16, 16, 1);
  const IntMatrix keys = numbered(16, 16, 2);
  const Fragments a = ldmatrix(queries, ldmatrix_a, false);
  const Fragments b = ldmatrix(keys, ldmatrix_b, false);
  for (int block = 0; block < 2; ++block) {
    const IntMatrix scores = mma(a, b, 2 * block);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        int expected = 0;
        for (int k = 0; k < 16; ++k) expected += queries.at(row, k) * keys.at(8 * block + column, k);
        ASSERT_EQ(scores.at(row, column), expected);
      }
    }
  }
}

/// What pack_a does: two accumulator blocks become the A operand without leaving their lane.
Fragments packed(const IntMatrix& left, const IntMatrix& right) {
  Fragments a{};
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const IntMatrix& block = i < 2 ? left : right;
      for (int half = 0; half < 2; ++half) {
        const TileCoordinate at = mma_c(lane, 2 * (i % 2) + half);
        a[static_cast<size_t>(lane)][static_cast<size_t>(i)][static_cast<size_t>(half)] = block.at(at.row, at.column);
      }
    }
  }
  return a;
}

TEST(FragmentMaps, AccumulatorsTimesRowsIsAPlainProduct) {
  const IntMatrix left = numbered(16, 8, 3);
  const IntMatrix right = numbered(16, 8, 4);
  const IntMatrix values = numbered(16, 16, 5);
  const Fragments a = packed(left, right);
  const Fragments b = ldmatrix(values, ldmatrix_b_transposed, true);
  for (int block = 0; block < 2; ++block) {
    const IntMatrix product = mma(a, b, 2 * block);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        int expected = 0;
        for (int k = 0; k < 16; ++k) {
          const int probability = k < 8 ? left.at(row, k) : right.at(row, k - 8);
          expected += probability * values.at(k, 8 * block + column);
        }
        ASSERT_EQ(product.at(row, column), expected);
      }
    }
  }
}

TEST(FragmentMaps, LdmatrixRowsMeetNoBankTwice) {
  for (const int columns : {16, 32, 64, 96, 128, 256}) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      for (const auto address : {ldmatrix_a, ldmatrix_b, ldmatrix_b_transposed}) {
        std::set<int> bank_groups;
        for (int lane = 8 * matrix; lane < 8 * matrix + 8; ++lane) {
          const TileCoordinate at = address(lane);
          bank_groups.insert((at.row * padded_pitch(columns) + at.column) * 2 / 16 % 8);
        }
        ASSERT_EQ(bank_groups.size(), 8u) << columns;
      }
    }
  }
}

}  // namespace
}  // namespace litespark::cuda
