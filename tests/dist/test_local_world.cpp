// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>

#include "communicator_conformance.h"
#include "dist/local_world.h"
#include "support/error_text.h"

namespace litespark {
namespace {

LocalWorld::Options with_timeout(double seconds) {
  // Small stretches, so that calls come in many of them.
  return {.timeout_seconds = seconds, .collectives = {.inbox_bytes = 1 << 16, .direct_bytes = 1 << 10}};
}

class LocalConformance : public testing::TestWithParam<int> {};

TEST_P(LocalConformance, EveryCallDoesWhatItSays) {
  for (const test::ConformanceCase& item : test::conformance_cases()) {
    SCOPED_TRACE(item.name);
    EXPECT_NO_THROW(run_local_ranks(GetParam(), with_timeout(60), [&](Communicator& communicator) {
      const auto memory = test::make_host_memory();
      item.run(communicator, *memory);
    }));
  }
}

// fault:B5
TEST_P(LocalConformance, EveryFaultEndsInAnErrorThatNamesIt) {
  if (GetParam() == 1) return;
  for (const test::FaultCase& item : test::fault_cases()) {
    SCOPED_TRACE(item.name);
    EXPECT_NO_THROW(
        run_local_ranks(GetParam(), with_timeout(test::kFaultTimeoutSeconds), [&](Communicator& communicator) {
          const auto memory = test::make_host_memory();
          item.run(communicator, *memory);
        }));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LocalConformance, testing::Values(1, 2, 3, 4), testing::PrintToStringParamName());

TEST(LocalWorld, TheLengthOfAStretchChangesNoBit) {
  const auto sums = [](const LocalWorld::Options& options) {
    std::vector<float> result;
    run_local_ranks(3, options, [&](Communicator& communicator) {
      std::vector<float> values(30000);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = 1.0f / static_cast<float>(i + 7 * static_cast<size_t>(communicator.rank()) + 1);
      communicator.wait(communicator.all_reduce(
          {.data = values.data(), .dtype = DType::kF32, .shape = {30000}, .device = Device::kCpu}, Reduction::kSum));
      if (communicator.rank() == 1) result = values;
    });
    return result;
  };
  const std::vector<float> whole = sums({.collectives = {.inbox_bytes = 1 << 20, .direct_bytes = 0}});
  EXPECT_EQ(sums({.collectives = {.inbox_bytes = 1 << 10, .direct_bytes = 0}}), whole);
  EXPECT_EQ(sums({.collectives = {.inbox_bytes = 1 << 20, .direct_bytes = 1 << 20}}), whole);
}

TEST(LocalWorld, TheNumberOfLanesChangesNoBit) {
  const auto sums = [](int num_lanes) {
    std::vector<float> result;
    const LocalWorld::Options options = {.num_lanes = num_lanes, .collectives = {.inbox_bytes = 1 << 12}};
    run_local_ranks(3, options, [&](Communicator& communicator) {
      constexpr int64_t kCalls = 20;
      constexpr int64_t kNumElements = 3000;
      std::vector<float> values(kCalls * kNumElements);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = 1.0f / static_cast<float>(i + 7 * static_cast<size_t>(communicator.rank()) + 1);
      for (int64_t call = 0; call < kCalls; ++call) {
        const Tensor data = {.data = values.data() + call * kNumElements,
                             .dtype = DType::kF32,
                             .shape = {kNumElements},
                             .device = Device::kCpu};
        const Tensor piece = dist::piece_of(data, communicator.rank(), 3);
        communicator.reduce_scatter(piece, data, Reduction::kSum);
        communicator.all_gather(data, piece);
      }
      communicator.barrier();
      if (communicator.rank() == 1) result = values;
    });
    return result;
  };
  const std::vector<float> one_after_another = sums(1);
  EXPECT_EQ(sums(2), one_after_another);
  EXPECT_EQ(sums(3), one_after_another);
}

TEST(LocalWorld, GivesEachRankOnce) {
  LocalWorld world(2);
  const auto first = world.communicator(0);
  EXPECT_EQ(first->size(), 2);
  EXPECT_EQ(first->name(), "local");
  EXPECT_THROW(world.communicator(0), InternalError);
  EXPECT_THROW(world.communicator(2), InternalError);
  EXPECT_THROW(LocalWorld(0), InternalError);
}

TEST(LocalWorld, AnExceptionOfOneRankEndsAllAndIsTheOneThatIsThrown) {
  std::atomic<int> ended = 0;
  try {
    run_local_ranks(3, with_timeout(60), [&](Communicator& communicator) {
      if (communicator.rank() == 1) throw DataError("shard 7", "is damaged");
      try {
        communicator.barrier();
      } catch (const CommError& error) {
        EXPECT_NE(std::string(error.what()).find("rank 1 gave up: [shard 7] is damaged"), std::string::npos)
            << error.what();
        ++ended;
        throw;
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "[shard 7] is damaged");
  }
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace litespark
