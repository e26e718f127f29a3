// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "data/synthetic_source.h"

namespace litespark {
namespace {

constexpr BatchShape kShape{.num_tokens = 32, .max_documents = 2, .max_length = 16, .uniform = true};

Batch filled(const BatchSource& source, uint64_t index) {
  Batch batch;
  batch.reset(kShape);
  source.fill(index, batch);
  return batch;
}

TEST(SyntheticSource, GivesTheSameBatchForTheSameIndexWhoeverAsks) {
  const SyntheticSource source(3, 100, kShape);
  const Batch seventh = filled(source, 7);
  filled(source, 1);
  EXPECT_EQ(filled(source, 7).ids, seventh.ids);
  EXPECT_EQ(filled(SyntheticSource(3, 100, kShape), 7).labels, seventh.labels);
  EXPECT_NE(filled(source, 8).ids, seventh.ids);
  EXPECT_NE(filled(SyntheticSource(4, 100, kShape), 7).ids, seventh.ids);
}

TEST(SyntheticSource, StaysInsideTheVocabularyAndScoresEveryToken) {
  const SyntheticSource source(1, 10, kShape);
  const Batch batch = filled(source, 0);
  EXPECT_EQ(batch.supervised_tokens(), 32);
  for (const int32_t id : batch.ids) EXPECT_TRUE(id >= 0 && id < 10);
  EXPECT_EQ(batch.labels[0], batch.ids[1]);
  EXPECT_EQ(batch.num_documents, 2);
}

}  // namespace
}  // namespace litespark
