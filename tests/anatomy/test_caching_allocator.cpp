// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "anatomy/caching_allocator.h"
#include "core/error.h"

namespace litespark::anatomy {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(CachingAllocator, TakesSmallRequestsFromSegmentsOfTwoMebibytes) {
  CachingAllocator allocator;
  const auto first = allocator.allocate(1000);
  const auto second = allocator.allocate(1);
  EXPECT_EQ(allocator.reserved_bytes(), 2 * kMiB);
  EXPECT_EQ(allocator.allocated_bytes(), 1024 + 512);
  EXPECT_EQ(first.segment, second.segment);
  EXPECT_EQ(second.offset, 1024);
  EXPECT_EQ(allocator.peak_requested_bytes(), 1001);
}

TEST(CachingAllocator, TakesMiddleRequestsFromTwentyMebibytesAndLargeOnesRoundedToTwo) {
  CachingAllocator allocator;
  (void)allocator.allocate(3 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 20 * kMiB);
  (void)allocator.allocate(13 * kMiB);  // 17 MiB of the first segment are left
  EXPECT_EQ(allocator.reserved_bytes(), 20 * kMiB);
  (void)allocator.allocate(11 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 32 * kMiB);
}

TEST(CachingAllocator, GivesOutTheSmallestBlockThatFits) {
  CachingAllocator allocator;
  const auto large = allocator.allocate(40 * kMiB);
  const auto medium = allocator.allocate(20 * kMiB);
  allocator.release(large);
  allocator.release(medium);
  EXPECT_EQ(allocator.allocate(19 * kMiB), medium);
  EXPECT_EQ(allocator.reserved_bytes(), 60 * kMiB);
}

TEST(CachingAllocator, MergesNeighboursSoThatTheWholeSegmentFitsAgain) {
  CachingAllocator allocator;
  const auto whole = allocator.allocate(40 * kMiB);
  allocator.release(whole);
  const auto a = allocator.allocate(12 * kMiB);
  const auto b = allocator.allocate(12 * kMiB);
  const auto c = allocator.allocate(16 * kMiB);
  allocator.release(a);
  allocator.release(c);
  allocator.release(b);
  EXPECT_EQ(allocator.allocate(40 * kMiB), whole);
  EXPECT_EQ(allocator.num_segments(), 1);
}

TEST(CachingAllocator, CannotJoinFreeBlocksThatAUsedOneParts) {
  CachingAllocator allocator;
  allocator.release(allocator.allocate(40 * kMiB));
  const auto a = allocator.allocate(12 * kMiB);
  (void)allocator.allocate(12 * kMiB);
  const auto c = allocator.allocate(16 * kMiB);
  allocator.release(a);
  allocator.release(c);
  // 28 MiB are free, in two pieces: 20 MiB more must be asked for.
  (void)allocator.allocate(20 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 60 * kMiB);
}

TEST(CachingAllocator, RefusesToReleaseTwice) {
  CachingAllocator allocator;
  const auto place = allocator.allocate(5);
  allocator.release(place);
  EXPECT_THROW(allocator.release(place), InternalError);
}

}  // namespace
}  // namespace litespark::anatomy
