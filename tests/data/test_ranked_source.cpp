// SPDX-License-Identifier: Apache-2.0
// All ranks together see every micro-batch of the source once, in its order.
#include <gtest/gtest.h>

#include "data/ranked_source.h"
#include "data/synthetic_source.h"

namespace litespark {
namespace {

TEST(RankedSource, GivesEveryMicroBatchToOneRankInTheOrderOfTheSource) {
  const BatchShape shape{.num_tokens = 16, .max_documents = 1, .max_length = 16, .uniform = true};
  const SyntheticSource source(3, 50, shape);
  constexpr uint64_t kRanks = 3;
  Batch expected;
  Batch found;
  for (uint64_t index = 0; index < 9; ++index) {
    const RankedSource mine(source, kRanks, index % kRanks);
    expected.reset(shape);
    found.reset(shape);
    source.fill(index, expected);
    mine.fill(index / kRanks, found);
    EXPECT_EQ(found.ids, expected.ids) << index;
    EXPECT_EQ(mine.fingerprint(), source.fingerprint());
  }
}

/// A source of ten micro-batches.
class TenBatches final : public BatchSource {
 public:
  void fill(uint64_t, Batch&) const override {}
  uint64_t batches_per_epoch() const override { return 10; }
  std::string fingerprint() const override { return "ten"; }
};

TEST(RankedSource, AnEpochIsSharedAndNothingOfItIsLeftOut) {
  const TenBatches source;
  EXPECT_EQ(RankedSource(source, 5, 0).batches_per_epoch(), 2U);
  EXPECT_EQ(RankedSource(source, 4, 3).batches_per_epoch(), 3U);
  EXPECT_EQ(RankedSource(SyntheticSource(1, 50, {.num_tokens = 4, .max_documents = 1, .max_length = 4}), 4, 3)
                .batches_per_epoch(),
            0U);
}

}  // namespace
}  // namespace litespark
