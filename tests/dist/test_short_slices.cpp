// SPDX-License-Identifier: Apache-2.0
// The kernel is asked for short slices, for this thread and those that it starts, and only as long as is said.
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "dist/short_slices.h"

namespace litespark::dist {
namespace {

/// Of the calling thread, as the kernel tells it; 0 where it tells none.
uint64_t slice_nanoseconds() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } found = {};
  if (syscall(SYS_sched_getattr, 0, &found, sizeof(found), 0) != 0 || found.policy != SCHED_NORMAL) return 0;
  return found.runtime;
}

TEST(ShortSlices, HoldForAThreadAndThoseThatItStartsAsLongAsTheyLive) {
  const uint64_t before = slice_nanoseconds();
  if (before == 0) GTEST_SKIP() << "this kernel tells no slices";
  uint64_t of_child = 0;
  uint64_t during = 0;
  {
    const ShortSlices slices;
    during = slice_nanoseconds();
    std::thread([&] { of_child = slice_nanoseconds(); }).join();
  }
  EXPECT_LT(during, before);
  EXPECT_EQ(of_child, during);
  EXPECT_EQ(slice_nanoseconds(), before);
}

}  // namespace
}  // namespace litespark::dist
