// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include "meter/host_status.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

/// `seconds` of CPU time in user mode.
std::string stat_of(double seconds) {
  return "cpu  " + std::to_string(static_cast<int64_t>(seconds * static_cast<double>(sysconf(_SC_CLK_TCK)))) +
         " 0 0 5000 700 0 0 30 0 0\ncpu0 1 2 3\n";
}

TEST(HostStatus, IdleTimeAndWaitingForDisksAreNotBusy) {
  const auto tick = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(busy_seconds_in("cpu  100 10 20 99999 777 3 4 50 60 70\n").value(), 137 / tick);
  EXPECT_EQ(busy_seconds_in(""), std::nullopt);
  EXPECT_EQ(busy_seconds_in("cpu  100 10"), std::nullopt);
}

TEST(HostStatus, MemoryIsFoundByItsWholeName) {
  const std::string text = "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    400 kB\n";
  EXPECT_EQ(memory_bytes_in(text, "MemTotal"), 1024000);
  EXPECT_EQ(memory_bytes_in(text, "MemAvailable"), 409600);
  EXPECT_EQ(memory_bytes_in(text, "Mem"), std::nullopt);
}

TEST(HostStatus, BusyThreadsAreThoseOfTheInterval) {
  const test::TemporaryFolder proc;
  proc.write("stat", stat_of(10));
  proc.write("meminfo", "MemTotal: 100 kB\nMemAvailable: 25 kB\n");
  HostStatusReader reader(proc.path());
  const HostStatus first = reader.read(5.0);
  EXPECT_EQ(first.busy_threads, std::nullopt);
  EXPECT_EQ(first.memory_used_bytes, 75 * 1024);
  proc.write("stat", stat_of(11));
  EXPECT_NEAR(reader.read(7.0).busy_threads.value(), 0.5, 1e-9);
}

TEST(HostStatus, ACounterThatFallsAndFilesThatAreMissingAreUnknown) {  // fault:F1
  const test::TemporaryFolder proc;
  proc.write("stat", stat_of(10));
  HostStatusReader reader(proc.path());
  reader.read(1.0);
  proc.write("stat", stat_of(9));
  const HostStatus after = reader.read(2.0);
  EXPECT_EQ(after.busy_threads, std::nullopt);
  EXPECT_EQ(after.memory_bytes, std::nullopt);
}

}  // namespace
}  // namespace litespark
