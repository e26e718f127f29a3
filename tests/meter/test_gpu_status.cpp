// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "meter/gpu_status.h"

namespace litespark {
namespace {

using Words = std::vector<std::string>;

TEST(GpuStatus, EveryReasonForLowClocksHasItsWords) {
  EXPECT_EQ(slow_reason_names(0), Words{});
  EXPECT_EQ(slow_reason_names(0x1), Words{"idle"});
  EXPECT_EQ(slow_reason_names(0x4 | 0x20), (Words{"power limit", "temperature (driver)"}));
}

TEST(GpuStatus, AReasonThatNobodyNamedIsNotLost) {
  EXPECT_EQ(slow_reason_names(0x4 | 0xc00), (Words{"power limit", "reason 0xc00"}));
}

TEST(GpuStatus, OpeningTheRealLibraryNeverFailsHard) {
  const auto reader = open_gpu_status();
  if (reader == nullptr) GTEST_SKIP() << "no NVIDIA driver here";
  for (const GpuStatus& status : reader->read()) {
    EXPECT_TRUE(status.uuid == "unknown" || status.uuid.starts_with("GPU-"));
    EXPECT_GT(status.power_watts.value_or(1), 0);
    EXPECT_GE(status.memory_bytes.value_or(0), status.memory_used_bytes.value_or(0));
  }
}

}  // namespace
}  // namespace litespark
