// SPDX-License-Identifier: Apache-2.0
// Quota and memory texts as the kernel writes them, and the affinity mask.
#include <gtest/gtest.h>
#include <sched.h>

#include "ops/cpu/host_limits.h"

namespace litespark::test {
namespace {

using cpu::available_memory_bytes;
using cpu::default_threads;
using cpu::meminfo_bytes;
using cpu::memory_stat_bytes;
using cpu::processors_of_cpu_max;

TEST(HostLimits, ReadsACgroupQuota) {
  EXPECT_EQ(processors_of_cpu_max("200000 100000\n"), 2);
  EXPECT_EQ(processors_of_cpu_max("150000 100000\n"), 1);
  EXPECT_EQ(processors_of_cpu_max("50000 100000\n"), 1);
  EXPECT_EQ(processors_of_cpu_max("max 100000\n"), std::nullopt);
  EXPECT_EQ(processors_of_cpu_max(""), std::nullopt);
  EXPECT_EQ(processors_of_cpu_max("100000"), std::nullopt);
  EXPECT_EQ(processors_of_cpu_max("100000 0"), std::nullopt);
}

TEST(HostLimits, ReadsMeminfo) {
  const char* text = "MemTotal:       24000000 kB\nMemAvailable:   123 kB\n";
  EXPECT_EQ(meminfo_bytes(text, "MemAvailable"), 123 * 1024);
  EXPECT_EQ(meminfo_bytes(text, "MemMissing"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemAvailable: x", "MemAvailable"), std::nullopt);
}

TEST(HostLimits, ReadsAMemoryStat) {
  const char* text = "anon 10\nfile 30\ninactive_file 4096\nactive_file 8192\n";
  EXPECT_EQ(memory_stat_bytes(text, "inactive_file"), 4096);
  EXPECT_EQ(memory_stat_bytes(text, "active_file"), 8192);
  EXPECT_EQ(memory_stat_bytes(text, "inactive"), 0);
  EXPECT_EQ(memory_stat_bytes("active_file", "active_file"), 0);
  EXPECT_EQ(memory_stat_bytes("", "active_file"), 0);
}

TEST(HostLimits, RespectsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_LE(default_threads(), CPU_COUNT(&before));
  EXPECT_GE(default_threads(), 1);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(default_threads(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(HostLimits, SeesSomeMemory) {
  const auto bytes = available_memory_bytes();
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, int64_t{1} << 20);
}

}  // namespace
}  // namespace litespark::test
