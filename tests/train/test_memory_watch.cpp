// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "meter/process_memory.h"
#include "support/error_text.h"
#include "support/sanitizers.h"
#include "train/memory_watch.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TinyRun tiny_run() {
  return {tiny_model(),
          tiny_program_options(),
          {random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1)},
          tiny_trainer_options(1000)};
}

/// Owners named while `run` takes `steps` steps; `leak` is called after each.
std::vector<MemoryGrowth> watched(TinyRun& run, int64_t steps, const std::function<void()>& leak) {
  MemoryWatch watch({}, [&] { return run.backend->memory_use(); });
  std::vector<MemoryGrowth> all;
  for (int64_t step = 1; step <= steps; ++step) {
    run.trainer.step_and_finish();
    leak();
    for (const MemoryGrowth& growth : watch.after_step(step)) all.push_back(growth);
  }
  return all;
}

TEST(MemoryWatch, ACleanRunStaysSilent) {
  TinyRun run = tiny_run();
  for (const MemoryGrowth& growth : watched(run, 200, [] {})) ADD_FAILURE() << growth_text(growth);
}

TEST(MemoryWatch, APlantedLeakOfTheHeapIsNamed) {  // claim:L12
  if (test::kHasSanitizersMalloc) GTEST_SKIP() << "a sanitizer's malloc tells the C library nothing";
  if (!process_memory() || !process_memory()->heap_used_bytes) GTEST_SKIP() << "this C library hides its heap";
  TinyRun run = tiny_run();
  std::vector<std::unique_ptr<char[]>> leaked;
  const auto growths = watched(run, 300, [&] {
    leaked.push_back(std::make_unique<char[]>(64 << 10));
    std::memset(leaked.back().get(), 1, 64 << 10);
  });
  ASSERT_FALSE(growths.empty());
  EXPECT_EQ(growths[0].owner, "host heap");
  EXPECT_GT(growths[0].bytes, 2 * kMiB);
}

TEST(MemoryWatch, APlantedLeakOfTheBackendIsNamed) {  // claim:L12
  TinyRun run = tiny_run();
  std::vector<std::unique_ptr<DeviceMemory>> leaked;
  const auto growths = watched(run, 300, [&] { leaked.push_back(run.backend->allocate(4096)); });
  ASSERT_FALSE(growths.empty());
  EXPECT_EQ(growths[0].owner, "planned memory");
}

/// A board whose other user holds a GiB, whose context takes 500 MiB, preparing 60 and running 140 more.
struct FakeBoard {
  MemoryUse use{.used_bytes = 1524 * kMiB};
  MemoryWatch::Start start() {
    MemoryWatch::Start start{.device = Device::kCuda,
                             .driver_before_bytes = 1600 * kMiB,  // the driver counts what it keeps for itself
                             .driver_opened_bytes = 2100 * kMiB,
                             .opened = use};
    use = {.used_bytes = 3584 * kMiB, .allocated_bytes = 2000 * kMiB, .num_allocations = 2};
    start.prepared = use;
    use.used_bytes = *use.used_bytes + 140 * kMiB;
    return start;
  }
};

TEST(MemoryWatch, WhatStandsBeyondThePlanIsContextLibrariesAndGraphs) {
  FakeBoard board;
  MemoryWatch watch(board.start(), [&] { return board.use; });
  watch.after_step(1);
  EXPECT_EQ(watch.beyond_plan_bytes(), std::nullopt);
  watch.after_step(2);
  watch.after_step(3);
  EXPECT_TRUE(watch.has_just_settled());
  EXPECT_EQ(watch.beyond_plan_bytes(), (500 + 60 + 140) * kMiB);
  EXPECT_TRUE(contains(watch.moments_text(), "3.50 GiB prepared with 1.95 GiB planned, 3.64 GiB after step 3"));
}

TEST(MemoryWatch, AllocationsOfTheSteadyStateAreCounted) {  // claim:L12
  FakeBoard board;
  MemoryWatch watch(board.start(), [&] { return board.use; });
  EXPECT_EQ(watch.text(), "");
  for (int64_t step = 1; step <= 40; ++step) watch.after_step(step);
  EXPECT_EQ(watch.text(),
            "memory: 0 device allocations after step 3; used memory flat within 0 B over 3 samples of 40 steps");
  board.use.num_allocations += 5;
  board.use.used_bytes = *board.use.used_bytes + 2 * kMiB;
  for (int64_t step = 41; step <= 60; ++step) watch.after_step(step);
  EXPECT_TRUE(contains(watch.text(), "5 device allocations after step 3; used memory flat within 2.0 MiB"));
}

TEST(MemoryWatch, GrowthOfTheDriverIsNamedApart) {
  FakeBoard board;
  MemoryWatch watch(board.start(), [&] { return board.use; });
  std::vector<MemoryGrowth> growths;
  for (int64_t step = 1; step <= 400 && growths.empty(); ++step) {
    board.use.used_bytes = *board.use.used_bytes + kMiB;
    growths = watch.after_step(step);
  }
  ASSERT_EQ(growths.size(), 1u);
  EXPECT_EQ(growths[0].owner, "device memory of driver and libraries");
}

}  // namespace
}  // namespace litespark
