// SPDX-License-Identifier: Apache-2.0
// The products with SwiGLU inside, whole, on the CPU: the kernel's own source over emulated clusters, held against
// plain loops in double. Finds wrong layouts, phases, stages handed back too early to either block, and deadlocks.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "block.h"
#include "support/values.h"
#define __CUDACC__
#include "ops/cuda/device/gated_product.cuh"
#undef __CUDACC__

namespace litespark::cuda {
namespace {

struct Case {
  int rows, depth, columns;
  int num_clusters = 1;
};

std::vector<bf16> random_matrix(int64_t rows, int64_t columns, uint64_t seed, double scale) {
  std::vector<bf16> result;
  for (const double value : test::random_normal(DType::kBF16, rows * columns, seed, 1)) {
    result.push_back(to_bf16(static_cast<float>(value * scale)));
  }
  return result;
}

double at(const std::vector<bf16>& matrix, int64_t columns, int64_t row, int64_t column) {
  return to_float(matrix[static_cast<size_t>(row * columns + column)]);
}

/// Runs the blocks of all clusters, one cluster after another.
template <GatedPass kPass>
void run(const Case& c, GatedArguments arguments, const CUtensorMap& tokens, const CUtensorMap& weights) {
  constexpr int kTile = GatedArguments::columns_of_tile<kPass>();
  static_assert(sizeof(GatedShared) + 1024 <= emulated::kSharedBytes);
  arguments.grid = {.rows = c.rows, .column_tiles = (c.columns + kTile - 1) / kTile};
  arguments.depth = c.depth;
  arguments.columns = c.columns;
  const GatedMaps maps{.tokens = tokens, .weights = weights};
  for (int cluster = 0; cluster < c.num_clusters; ++cluster) {
    EXPECT_EQ(emulated::run_cluster(kGatedCluster, {.cluster = cluster, .num_clusters = c.num_clusters}, kHopperThreads,
                                    static_cast<unsigned>(cluster),
                                    [&] {
                                      auto& shared = *reinterpret_cast<GatedShared*>(emulated::shared_memory());
                                      gated_product_block<kPass>(shared, arguments, maps);
                                    }),
              "");
  }
}

/// Compares with what a tolerance of bf16 (2^-8) of the size of the sums allows.
struct Comparison {
  int64_t wrong = 0;

  void expect(const char* what, int row, int column, bf16 actual, double expected) {
    if (std::abs(to_float(actual) - expected) <= 0.01 + 0.01 * std::abs(expected)) return;
    if (++wrong <= 4) {
      ADD_FAILURE() << what << " of row " << row << ", column " << column << ": " << to_float(actual) << " for "
                    << expected;
    }
  }
};

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

void expect_forward(const Case& c) {
  const double scale = 1 / std::sqrt(c.depth);
  const std::vector<bf16> x = random_matrix(c.rows, c.depth, 1, 1);
  const std::vector<bf16> weight = random_matrix(2 * c.columns, c.depth, 2, scale);
  std::vector<bf16> gate_up(static_cast<size_t>(c.rows * 2 * c.columns), bf16{0xffff});
  std::vector<bf16> h(static_cast<size_t>(c.rows * c.columns), bf16{0xffff});
  run<GatedPass::kForward>(c, {.gate_up = gate_up.data(), .h = h.data()}, {x.data(), c.rows, c.depth, kGatedRows},
                           {weight.data(), 2 * c.columns, c.depth, kGatedHalf});
  Comparison comparison;
  for (int row = 0; row < c.rows; ++row) {
    for (int column = 0; column < 2 * c.columns; ++column) {
      double sum = 0;
      for (int k = 0; k < c.depth; ++k) sum += at(x, c.depth, row, k) * at(weight, c.depth, column, k);
      comparison.expect("gate_up", row, column, gate_up[static_cast<size_t>(row * 2 * c.columns + column)], sum);
    }
    for (int column = 0; column < c.columns; ++column) {
      // From the gate and up that were written: h is to have the bits of the op by itself.
      const double gate = at(gate_up, 2 * c.columns, row, column);
      const double up = at(gate_up, 2 * c.columns, row, c.columns + column);
      comparison.expect("h", row, column, h[static_cast<size_t>(row * c.columns + column)],
                        gate * sigmoid_of(gate) * up);
    }
  }
  EXPECT_EQ(comparison.wrong, 0) << c.rows << " x " << c.columns << ", depth " << c.depth;
}

void expect_backward(const Case& c) {
  const std::vector<bf16> dout = random_matrix(c.rows, c.depth, 3, 1);
  const std::vector<bf16> weight = random_matrix(c.depth, c.columns, 4, 1 / std::sqrt(c.depth));
  const std::vector<bf16> inputs = random_matrix(c.rows, 2 * c.columns, 5, 1);
  std::vector<bf16> gate_up = inputs;  // overwritten by its gradient
  run<GatedPass::kBackward>(c, {.gate_up = gate_up.data(), .gate_up_gradient = gate_up.data()},
                            {dout.data(), c.rows, c.depth, kGatedRows},
                            {weight.data(), c.depth, c.columns, kGatedDepth});
  Comparison comparison;
  for (int row = 0; row < c.rows; ++row) {
    for (int column = 0; column < c.columns; ++column) {
      double dh = 0;
      for (int k = 0; k < c.depth; ++k) dh += at(dout, c.depth, row, k) * at(weight, c.columns, k, column);
      const double gate = at(inputs, 2 * c.columns, row, column);
      const double up = at(inputs, 2 * c.columns, row, c.columns + column);
      const double s = sigmoid_of(gate);
      comparison.expect("dgate", row, column, gate_up[static_cast<size_t>(row * 2 * c.columns + column)],
                        dh * up * s * (1 + gate * (1 - s)));
      comparison.expect("dup", row, column, gate_up[static_cast<size_t>((row * 2 + 1) * c.columns + column)],
                        dh * gate * s);
    }
  }
  EXPECT_EQ(comparison.wrong, 0) << c.rows << " x " << c.columns << ", depth " << c.depth;
}

TEST(EmulatedGatedProduct, OneWholeTileOfEachBlock) {
  expect_forward({.rows = 256, .depth = 128, .columns = 128});
  expect_backward({.rows = 256, .depth = 128, .columns = 256});
}

TEST(EmulatedGatedProduct, TilesThatAreCutInRowsDepthAndColumns) {
  expect_forward({.rows = 200, .depth = 72, .columns = 136});
  expect_backward({.rows = 200, .depth = 72, .columns = 264});
}

TEST(EmulatedGatedProduct, FewRowsLeaveTheSecondBlockNothing) {
  expect_forward({.rows = 3, .depth = 8, .columns = 8});
  expect_backward({.rows = 3, .depth = 8, .columns = 8});
}

TEST(EmulatedGatedProduct, AClusterGoesOnWithItsNextTilesWhereItsRingStands) {
  expect_forward({.rows = 520, .depth = 320, .columns = 136});
  expect_backward({.rows = 300, .depth = 256, .columns = 520});
}

TEST(EmulatedGatedProduct, SeveralClustersShareOutTheTiles) {
  expect_forward({.rows = 600, .depth = 64, .columns = 200, .num_clusters = 4});
  expect_backward({.rows = 600, .depth = 64, .columns = 304, .num_clusters = 4});
}

}  // namespace
}  // namespace litespark::cuda
