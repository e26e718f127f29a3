// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "data/text_source.h"

namespace litespark {
namespace {

constexpr BatchShape kShape{.num_tokens = 16, .max_documents = 2, .max_length = 8, .uniform = true};

std::string numbered_text(size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text += static_cast<char>(i % 251);
  return text;
}

TEST(TextSource, ShowsEveryWindowOncePerEpochInANewOrder) {
  const TextSource source(numbered_text(8 * 10 + 1), 9, kShape);
  EXPECT_EQ(source.batches_per_epoch(), 5u);
  std::vector<int32_t> order;
  for (uint64_t index = 0; index < 10; ++index) {
    Batch batch;
    batch.reset(kShape);
    source.fill(index, batch);
    order.push_back(batch.ids[0]);
    order.push_back(batch.ids[8]);
    EXPECT_EQ(batch.labels[7], (batch.ids[7] + 1) % 251);  // the next byte, across the window's edge
  }
  std::map<int32_t, int> first_epoch, second_epoch;
  for (size_t i = 0; i < 10; ++i) ++first_epoch[order[i]], ++second_epoch[order[10 + i]];
  EXPECT_EQ(first_epoch.size(), 10u);
  EXPECT_EQ(second_epoch.size(), 10u);
  EXPECT_NE(std::vector(order.begin(), order.begin() + 10), std::vector(order.begin() + 10, order.end()));
}

TEST(TextSource, RefusesTextsShorterThanAWindow) {  // fault:D16
  EXPECT_THROW(TextSource("", 1, kShape), DataError);
  EXPECT_THROW(TextSource("12345678", 1, kShape), DataError);
  EXPECT_NO_THROW(TextSource("123456789", 1, kShape));
}

TEST(TextSource, FingerprintsTheTextItself) {
  EXPECT_NE(TextSource("123456789", 1, kShape).fingerprint(), TextSource("123456780", 1, kShape).fingerprint());
}

}  // namespace
}  // namespace litespark
