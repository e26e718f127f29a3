// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "meter/leak_watch.h"

namespace litespark {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// What a watch says of one owner with a tolerance of one MiB over 60 samples, one in ten steps.
std::vector<MemoryGrowth> watched(const std::function<int64_t(int64_t step)>& bytes_at) {
  LeakWatch watch;
  std::vector<MemoryGrowth> all;
  for (int64_t step = 10; step <= 600; step += 10) {
    for (const MemoryGrowth& growth :
         watch.add(step, {{.owner = "host heap", .bytes = bytes_at(step), .tolerance_bytes = kMiB},
                          {.owner = "planned arena", .bytes = 7 * kMiB}})) {
      all.push_back(growth);
    }
  }
  return all;
}

TEST(LeakWatch, NamesAnOwnerThatGoesOnGrowing) {  // claim:L12
  const std::vector<MemoryGrowth> growths = watched([](int64_t step) { return step * kMiB / 20; });
  ASSERT_FALSE(growths.empty());
  EXPECT_EQ(growths[0].owner, "host heap");
  EXPECT_EQ(growths[0].from_step, 10);
  int64_t sum = 0;
  for (const MemoryGrowth& growth : growths) sum += growth.bytes;
  EXPECT_EQ(sum, (growths.back().to_step - 10) * kMiB / 20);  // nothing is named twice
}

TEST(LeakWatch, FindsThreeMegabytesInAThousandSteps) {  // claim:L12
  LeakWatch watch;
  size_t num_named = 0;
  for (int64_t step = 20; step <= 2000; step += 20) {
    num_named +=
        watch.add(step, {{.owner = "device", .bytes = step * 3'000'000 / 1000, .tolerance_bytes = kMiB}}).size();
  }
  EXPECT_GE(num_named, 2u);
}

TEST(LeakWatch, WhatGrowsOnceIsNoLeak) {
  EXPECT_TRUE(watched([](int64_t step) { return step < 100 ? 0 : 500 * kMiB; }).empty());
}

TEST(LeakWatch, WhatComesAndGoesIsNoLeak) {
  EXPECT_TRUE(watched([](int64_t step) { return step % 30 == 0 ? 100 * kMiB : 0; }).empty());
}

TEST(LeakWatch, GrowthWithinTheToleranceIsNoise) {
  EXPECT_TRUE(watched([](int64_t step) { return step * kMiB / 1000; }).empty());
}

TEST(LeakWatch, TheTextNamesOwnerBytesAndSteps) {
  EXPECT_EQ(growth_text({.owner = "loader", .bytes = 12 * kMiB, .from_step = 40, .to_step = 200}),
            "loader grew by 12.0 MiB from step 40 to 200: a leak");
}

}  // namespace
}  // namespace litespark
