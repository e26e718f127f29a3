// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "anatomy/tiny_measure.h"
#include "anatomy/tuning.h"

namespace litespark::anatomy {
namespace {

TuningSizes tiny_tuning() {
  return {.model = tiny_sizes(), .steps = 40, .learning_rate = 1e-2};
}

TEST(TuningChapter, DrawsTokensThatFollowFromTheOneBefore) {
  const BatchShape shape{.num_tokens = 4000, .max_documents = 4, .max_length = 1000, .uniform = true};
  const PatternSource source(1, 50, shape);
  Batch batch;
  batch.reset(shape);
  source.fill(0, batch);
  std::map<int32_t, std::map<int32_t, int>> followers;
  for (size_t i = 0; i < batch.ids.size(); ++i) ++followers[batch.ids[i]][batch.labels[i]];
  int most_likely = 0;
  for (const auto& [token, next] : followers) {
    EXPECT_LE(next.size(), 4u) << token;
    int most = 0;
    for (const auto& [label, count] : next) most = std::max(most, count);
    most_likely += most;
  }
  EXPECT_NEAR(most_likely / 4000.0, 0.6, 0.05);
  Batch again;
  again.reset(shape);
  source.fill(0, again);
  EXPECT_EQ(again.ids, batch.ids);
}

TEST(TuningChapter, LearnsTowardsTheLeastLossAndNotBelowIt) {
  const auto backend = make_cpu_backend({.threads = 1});
  const TuningRun run = train_run(*backend, tiny_measure(), tiny_tuning(), {.name = "base", .warmup = 4});
  EXPECT_LT(run.loss, std::log(64.0) - 0.1);
  EXPECT_GT(run.loss, PatternSource::least_loss());
  EXPECT_GE(run.half_way_step, 0);
  EXPECT_LE(run.half_way_step, 1);
}

TEST(TuningChapter, ClipsMoreStepsAtASmallerLimit) {
  const auto backend = make_cpu_backend({.threads = 1});
  const auto share_at = [&](double clip) {
    return train_run(*backend, tiny_measure(), tiny_tuning(), {.name = "run", .warmup = 4, .clip = clip}).clipped_share;
  };
  EXPECT_EQ(share_at(1e-6), 1);
  EXPECT_EQ(share_at(1e6), 0);
}

TEST(TuningChapter, ComparesTheAdviceWithTheBaseRun) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Chapter chapter = tuning_chapter(*backend, tiny_measure(), tiny_tuning());
  const Table& table = table_of(chapter, "runs");
  ASSERT_EQ(table.rows.size(), 5u);
  const std::vector<double> losses = column_of(table, 4);
  EXPECT_DOUBLE_EQ(number_of(chapter, "warm_up"), losses[1] - losses[0]);
  EXPECT_DOUBLE_EQ(number_of(chapter, "clip"), losses[2] - losses[0]);
  EXPECT_DOUBLE_EQ(number_of(chapter, "batch"), losses[4] - losses[0]);
}

}  // namespace
}  // namespace litespark::anatomy
