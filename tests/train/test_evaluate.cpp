// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "train/evaluate.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

/// The given batches, once.
class ListSource final : public BatchSource {
 public:
  explicit ListSource(std::vector<Batch> batches) : batches_(std::move(batches)) {}
  void fill(uint64_t index, Batch& batch) const override { batch = batches_.at(index); }
  uint64_t batches_per_epoch() const override { return batches_.size(); }
  std::string fingerprint() const override { return "list"; }

 private:
  std::vector<Batch> batches_;
};

struct EvaluateTest : testing::Test {
  BatchShape shape = tiny_program_options().batch;
  TinyRun run{tiny_model(), tiny_program_options(), {random_batch(shape, {20}, 96, 1)}, tiny_trainer_options()};
};

TEST_F(EvaluateTest, WeighsTokensNotBatches) {
  const Batch small = random_batch(shape, {3}, 96, 1), large = random_batch(shape, {32, 32}, 96, 2);
  const EvalResult a = evaluate_all(run.executor, ListSource({small}));
  const EvalResult b = evaluate_all(run.executor, ListSource({large}));
  const EvalResult both = evaluate_all(run.executor, ListSource({small, large}));
  EXPECT_EQ(both.supervised_tokens, 2 + 62);
  EXPECT_NEAR(both.loss, (2 * a.loss + 62 * b.loss) / 64, 1e-6);
}

TEST_F(EvaluateTest, RefusesDataWithoutLabelsAndForeignIds) {
  Batch masked = random_batch(shape, {20}, 96, 1), foreign = masked;
  masked.labels.assign(masked.labels.size(), op::kIgnoredLabel);
  foreign.ids[0] = 96;
  EXPECT_THROW(evaluate_all(run.executor, ListSource({masked})), DataError);
  EXPECT_THROW(evaluate_all(run.executor, ListSource({foreign})), DataError);
}

TEST_F(EvaluateTest, StopsBetweenTwoBatches) {
  const std::vector<Batch> batches(3, random_batch(shape, {20}, 96, 1));
  int asked = 0;
  EXPECT_FALSE(evaluate(run.executor, ListSource(batches), 3, [&] { return ++asked == 2; }).has_value());
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace litespark
