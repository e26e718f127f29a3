// SPDX-License-Identifier: Apache-2.0
#include "anatomy/norm.h"
#include "anatomy/tiny_measure.h"

namespace litespark::anatomy {
namespace {

TEST(NormChapter, SeesTheStreamsGradientBelowEveryBlock) {
  const auto backend = make_cpu_backend({.threads = 1});
  PreparedModel model(*backend, tiny_sizes(), train_options(tiny_sizes(), DType::kF32));
  const StreamGradients gradients = stream_gradients(model);
  ASSERT_EQ(gradients.layers.size(), 4u);
  EXPECT_GT(gradients.top, 0);
  for (const double norm : gradients.layers) EXPECT_GT(norm, 0);
  EXPECT_FALSE(model.executor().is_observed());
}

TEST(NormChapter, BringsBackwardsPeakDownByRecomputing) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Chapter chapter = norm_chapter(*backend, tiny_measure(), tiny_sizes());
  const Table& table = table_of(chapter, "peaks");
  ASSERT_EQ(table.rows.size(), 6u);
  const std::vector<double> backward = column_of(table, 2);
  for (const size_t first : {0u, 3u}) {
    EXPECT_GT(backward[first], backward[first + 1]);
    EXPECT_GT(backward[first + 1], backward[first + 2]);
  }
  EXPECT_EQ(table_of(chapter, "layers").rows.size(), 4u);
  EXPECT_NEAR(number_of(chapter, "accumulation"), 1.0, 0.01);
}

}  // namespace
}  // namespace litespark::anatomy
