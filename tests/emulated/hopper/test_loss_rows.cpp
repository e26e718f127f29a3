// SPDX-License-Identifier: Apache-2.0
// The cross-entropy whose rows pass through shared memory, whole, on the CPU: the kernel's own source over emulated
// clusters, held against the reference in double.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "block.h"
#include "support/values.h"
#define __CUDACC__
#include "ops/cuda/device/loss_rows.cuh"
#undef __CUDACC__

namespace litespark::cuda {
namespace {

struct Case {
  int64_t rows = 1;
  int columns = 0;
  int blocks = 1;  ///< of a cluster, and groups of readers, as the shape asks for
  int groups = 1;
  int num_clusters = 1;
  bool has_log_sum_exp = true, write_gradient = true;
  float z_coefficient = 0;
};

template <class T>
struct Tensors {
  std::vector<T> logits;
  std::vector<int32_t> labels;
  std::vector<float> losses, log_sum_exp;
  StepState state;
};

/// Every fifth row is not scored, the third of them for a label that is no token.
template <class T>
Tensors<T> tensors_of(const Case& c) {
  Tensors<T> tensors;
  for (const double value : test::random_normal(DType::kF32, c.rows * c.columns, 1, 3)) {
    tensors.logits.push_back(from_float<T>(static_cast<float>(value)));
  }
  for (int64_t row = 0; row < c.rows; ++row) {
    const auto label = static_cast<int32_t>(row * 7919 % c.columns);
    tensors.labels.push_back(row % 5 == 4 ? op::kIgnoredLabel : row == 3 ? c.columns : label);
  }
  tensors.labels.front() = c.columns - 1;
  tensors.losses.resize(static_cast<size_t>(c.rows), NAN);
  tensors.log_sum_exp.resize(static_cast<size_t>(c.rows), NAN);
  return tensors;
}

template <class T>
void run(const Case& c, Tensors<T>& tensors) {
  static_assert(sizeof(RowRing) <= emulated::kSharedBytes);
  const CrossEntropyArgs<T> args{.losses = tensors.losses.data(),
                                 .log_sum_exp = c.has_log_sum_exp ? tensors.log_sum_exp.data() : nullptr,
                                 .logits = tensors.logits.data(),
                                 .labels = tensors.labels.data(),
                                 .state = &tensors.state,
                                 .rows = c.rows,
                                 .columns = c.columns,
                                 .z_coefficient = c.z_coefficient,
                                 .write_gradient = c.write_gradient};
  const LossRing ring = loss_ring_of_row({.columns = c.columns,
                                          .width = LossRows<T>::kWidth,
                                          .element_bytes = sizeof(T),
                                          .shared_bytes = emulated::kSharedBytes});
  ASSERT_EQ(ring.blocks, c.blocks);
  ASSERT_EQ(ring.groups, c.groups);
  for (int cluster = 0; cluster < c.num_clusters; ++cluster) {
    EXPECT_EQ(emulated::run_cluster(ring.blocks, {.cluster = cluster, .num_clusters = c.num_clusters}, kRowThreads,
                                    static_cast<unsigned>(cluster),
                                    [&] {
                                      auto& shared = *reinterpret_cast<RowRing*>(emulated::shared_memory());
                                      if (ring.groups == 2) return loss_rows_block<T, 2>(shared, args);
                                      loss_rows_block<T, 1>(shared, args);
                                    }),
              "");
  }
}

template <class T>
void expect_losses_and_gradients(const Case& c) {
  Tensors<T> tensors = tensors_of<T>(c);
  const std::vector<T> logits = tensors.logits;
  run(c, tensors);
  int64_t wrong = 0;
  for (int64_t row = 0; row < c.rows; ++row) {
    const auto at = [&](int64_t column) { return static_cast<size_t>(row * c.columns + column); };
    const int32_t label = tensors.labels[static_cast<size_t>(row)];
    const bool is_scored = label >= 0 && label < c.columns;
    double sum = 0;
    for (int column = 0; column < c.columns; ++column) sum += std::exp(double{as_float(logits[at(column)])});
    const double log_sum_exp = std::log(sum);
    const double loss = is_scored ? log_sum_exp - double{as_float(logits[at(label)])} : 0;
    EXPECT_NEAR(tensors.losses[static_cast<size_t>(row)], loss, 1e-4) << "row " << row;
    if (c.has_log_sum_exp) {
      EXPECT_NEAR(tensors.log_sum_exp[static_cast<size_t>(row)], log_sum_exp, 1e-4);
    }
    for (int column = 0; column < c.columns; ++column) {
      const double logit = as_float(logits[at(column)]);
      const double p = std::exp(logit - log_sum_exp) * (1 + 2 * double{c.z_coefficient} * log_sum_exp);
      const double expected = !c.write_gradient ? logit : is_scored ? p - (column == label ? 1 : 0) : 0;
      const double actual = as_float(tensors.logits[at(column)]);
      if (!(std::abs(actual - expected) <= 1e-6 + 0.005 * std::abs(expected))) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0) << c.rows << " x " << c.columns;
  EXPECT_EQ(tensors.state.bad_tokens, c.rows > 3 ? 1 : 0);
}

TEST(EmulatedLossRows, TwoGroupsTakeRowsInTurn) {
  expect_losses_and_gradients<bf16>({.rows = 11, .columns = 20000, .groups = 2});
}

TEST(EmulatedLossRows, OneGroupTakesLongerRows) {
  expect_losses_and_gradients<bf16>({.rows = 6, .columns = 60000});
}

TEST(EmulatedLossRows, RowsThatNobodyAsksForAreNotRead) {
  expect_losses_and_gradients<bf16>(
      {.rows = 9, .columns = 17000, .groups = 2, .has_log_sum_exp = false, .z_coefficient = 0.01f});
  expect_losses_and_gradients<bf16>({.rows = 6, .columns = 50000, .has_log_sum_exp = false});
}

TEST(EmulatedLossRows, WithoutGradientsLogitsStay) {
  expect_losses_and_gradients<bf16>({.rows = 5, .columns = 33000, .groups = 2, .write_gradient = false});
}

TEST(EmulatedLossRows, TwoBlocksShareARow) {
  expect_losses_and_gradients<bf16>({.rows = 6, .columns = 90008, .blocks = 2, .num_clusters = 2});
}

TEST(EmulatedLossRows, FourBlocksShareALongRowOfFloats) {
  expect_losses_and_gradients<float>({.rows = 5, .columns = 100004, .blocks = 4});
}

}  // namespace
}  // namespace litespark::cuda
