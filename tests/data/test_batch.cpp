// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/batch.h"

namespace litespark {
namespace {

TEST(Batch, LaysDocumentsEndToEndWithRestartingPositions) {  // report:B13
  Batch batch;
  batch.reset({.num_tokens = 8, .max_documents = 3, .max_length = 8});
  const std::vector<int32_t> a = {5, 6, 7}, b = {9, 8};
  batch.append_shifted(a, op::kIgnoredLabel);
  batch.append_shifted(b, 4);
  EXPECT_EQ(batch.ids, (std::vector<int32_t>{5, 6, 7, 9, 8, 0, 0, 0}));
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{6, 7, -100, 8, 4, -100, -100, -100}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 0, 0, 0}));
  EXPECT_EQ(batch.offsets, (std::vector<int32_t>{0, 3, 5, 5}));
  EXPECT_EQ(batch.num_documents, 2);
  EXPECT_EQ(batch.tokens_used(), 5);
  EXPECT_EQ(batch.supervised_tokens(), 4);
}

TEST(Batch, HoldsTheBytesOfItsRows) {
  Batch batch;
  EXPECT_EQ(batch.held_bytes(), 0);
  batch.reset({.num_tokens = 8, .max_documents = 3, .max_length = 8});
  EXPECT_GE(batch.held_bytes(), 4 * (3 * 8 + 4));
}

TEST(Batch, RefusesWhatDoesNotFit) {
  Batch batch;
  batch.reset({.num_tokens = 4, .max_documents = 1, .max_length = 4});
  const std::vector<int32_t> ids(5, 1), labels(4, 1), three(3, 1);
  EXPECT_THROW(batch.append(ids, ids), InternalError);
  EXPECT_THROW(batch.append(three, labels), InternalError);
  batch.append(three, three);
  EXPECT_THROW(batch.append(std::vector<int32_t>{1}, std::vector<int32_t>{1}), InternalError);
}

}  // namespace
}  // namespace litespark
