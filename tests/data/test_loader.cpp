// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>

#include "core/error.h"
#include "core/rng.h"
#include "data/loader.h"

namespace litespark {
namespace {

constexpr BatchShape kShape{.num_tokens = 8, .max_documents = 1, .max_length = 8};

/// Batch i holds the number i; filling takes an unpredictable time and may fail.
class NumberedSource final : public BatchSource {
 public:
  uint64_t fails_at = UINT64_MAX;
  mutable std::atomic<int> fills = 0;

  void fill(uint64_t index, Batch& batch) const override {
    ++fills;
    std::this_thread::sleep_for(std::chrono::microseconds(RandomStream(1, 1).below(index, 300)));
    if (index == fails_at) throw DataError("numbers", "this one is broken");
    const std::vector<int32_t> ids(8, static_cast<int32_t>(index));
    batch.append(ids, ids);
  }
  uint64_t batches_per_epoch() const override { return 0; }
  std::string fingerprint() const override { return "numbers"; }
};

TEST(Loader, GivesTheSameSequenceWhateverTheWorkersAndDepth) {
  for (const int64_t workers : {0, 1, 3}) {
    for (const int64_t depth : {1, 5}) {
      const NumberedSource source;
      Loader loader(source, {.shape = kShape, .workers = workers, .depth = depth, .first_index = 7});
      for (uint64_t index = 7; index < 107; ++index) {
        const Batch& batch = loader.get(index);
        for (const int32_t id : batch.ids) ASSERT_EQ(id, static_cast<int32_t>(index));
      }
    }
  }
}

/// In a process of its own, as a user whom no system has and who may run a few threads only.
void start_more_workers_than_the_user_may() {
  const rlimit few{.rlim_cur = 8, .rlim_max = 8};
  if (setrlimit(RLIMIT_NPROC, &few) != 0 || setresuid(54321, 54321, 54321) != 0) _exit(2);
  const NumberedSource source;
  try {
    const Loader loader(source, {.shape = kShape, .workers = 64, .depth = 2});
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "%s", error.what());
    _exit(1);
  }
  _exit(0);
}

TEST(Loader, AWorkerThatTheSystemRefusesIsAnErrorAndNotTheEndOfTheProcess) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a process another user's";
  EXPECT_EXIT(start_more_workers_than_the_user_may(), testing::ExitedWithCode(1),
              "data.workers.*refuses a loader thread.*expected 64.*lower data.workers");
}

TEST(Loader, HoldsNoMoreThanItsSlots) {
  for (const int64_t workers : {0, 2}) {
    const NumberedSource source;
    Loader loader(source, {.shape = kShape, .workers = workers, .depth = 2});
    for (uint64_t index = 0; index < 50; ++index) loader.get(index);
    EXPECT_GT(loader.held_bytes(), 0);
    EXPECT_LE(loader.held_bytes(), 3 * 4 * (3 * 8 + 2));
  }
}

TEST(Loader, NeverTouchesTheBatchInUse) {
  const NumberedSource source;
  Loader loader(source, {.shape = kShape, .workers = 2, .depth = 2});
  for (uint64_t index = 0; index < 20; ++index) {
    const Batch& batch = loader.get(index);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const int32_t id : batch.ids) ASSERT_EQ(id, static_cast<int32_t>(index));
  }
}

TEST(Loader, HandsOnTheErrorOfTheBatchThatFailed) {
  NumberedSource source;
  source.fails_at = 3;
  Loader loader(source, {.shape = kShape, .workers = 2});
  for (uint64_t index = 0; index < 3; ++index) EXPECT_NO_THROW(loader.get(index));
  EXPECT_THROW(loader.get(3), DataError);
  EXPECT_NO_THROW(loader.get(4));
}

TEST(Loader, ReadsNoFurtherAheadThanItsDepth) {
  const NumberedSource source;
  Loader loader(source, {.shape = kShape, .workers = 2, .depth = 3});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(source.fills, 3);
}

TEST(Loader, RefusesToJump) {
  const NumberedSource source;
  Loader loader(source, {.shape = kShape});
  EXPECT_THROW(loader.get(1), InternalError);
}

}  // namespace
}  // namespace litespark
