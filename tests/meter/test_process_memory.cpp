// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "meter/process_memory.h"
#include "support/sanitizers.h"

namespace litespark {
namespace {

TEST(ProcessMemory, ReadsTheKernelsLines) {
  const auto memory = parse_process_status(
      "VmHWM:\t    9000 kB\nVmRSS:\t    5000 kB\nRssAnon:\t    3000 kB\nRssFile:\t    1500 kB\nRssShmem:\t     500 "
      "kB\n");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->resident_bytes, 5000 * 1024);
  EXPECT_EQ(memory->anonymous_bytes, 3000 * 1024);
  EXPECT_EQ(memory->file_bytes, 2000 * 1024);
  EXPECT_EQ(memory->heap_used_bytes, std::nullopt);
}

TEST(ProcessMemory, WithoutItsLineNothingIsKnown) {
  EXPECT_EQ(parse_process_status(""), std::nullopt);
  EXPECT_EQ(parse_process_status("VmRSS:"), std::nullopt);
  EXPECT_EQ(parse_process_status("VmRSS: many kB\n"), std::nullopt);
}

TEST(ProcessMemory, SeesWhatIsTakenFromTheHeap) {
  if (test::kHasSanitizersMalloc) GTEST_SKIP() << "a sanitizer's malloc tells the C library nothing";
  const auto before = process_memory();
  ASSERT_TRUE(before);
  if (!before->heap_used_bytes) GTEST_SKIP() << "this C library does not say what its heap holds";
  constexpr size_t kBytes = size_t{32} << 20;
  const auto block = std::make_unique<char[]>(kBytes);
  std::memset(block.get(), 1, kBytes);
  const auto after = process_memory();
  EXPECT_GE(*after->heap_used_bytes, *before->heap_used_bytes + static_cast<int64_t>(kBytes));
  EXPECT_GT(after->resident_bytes, before->resident_bytes);
}

}  // namespace
}  // namespace litespark
