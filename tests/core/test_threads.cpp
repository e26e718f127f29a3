// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "core/threads.h"

namespace litespark {
namespace {

TEST(ParallelStretches, CoversEveryIndexExactlyOnce) {
  for (const int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    parallel_stretches(count, 1, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    for (const auto& visit : visits) EXPECT_EQ(visit, 1);
  }
}

TEST(ParallelStretches, KeepsSmallWorkOnTheCallersThread) {
  std::atomic<int> calls = 0;
  parallel_stretches(100, 1000, [&](int64_t, int64_t) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(ParallelStretches, HandsOnAnException) {
  EXPECT_THROW(parallel_stretches(100, 1,
                                  [](int64_t, int64_t end) {
                                    if (end == 100) throw std::runtime_error("last stretch");
                                  }),
               std::runtime_error);
}

}  // namespace
}  // namespace litespark
