// SPDX-License-Identifier: Apache-2.0
// Names of instruction sets, and that a cap below the machine's best is kept.
#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark::test {
namespace {

TEST(CpuIsa, ParsesEveryDocumentedName) {
  EXPECT_EQ(parse_cpu_isa("generic"), CpuIsa::kGeneric);
  EXPECT_EQ(parse_cpu_isa("avx2"), CpuIsa::kAvx2);
  EXPECT_EQ(parse_cpu_isa("avx512"), CpuIsa::kAvx512);
  EXPECT_EQ(parse_cpu_isa("avx512bf16"), CpuIsa::kAvx512Bf16);
  EXPECT_EQ(parse_cpu_isa("amx"), CpuIsa::kAmx);
  EXPECT_EQ(parse_cpu_isa("auto"), CpuIsa::kAmx);
  EXPECT_THROW(parse_cpu_isa("sse9"), ConfigError);
  EXPECT_THROW(parse_cpu_isa(""), ConfigError);
}

TEST(CpuIsa, BackendNeverExceedsTheCapOrTheMachine) {
  EXPECT_EQ(make_cpu_backend({.threads = 1, .max_isa = CpuIsa::kGeneric})->name(), "cpu (generic, 1 thread)");
  if (detect_cpu_isa() == CpuIsa::kAvx2) {
    EXPECT_EQ(make_cpu_backend({.threads = 2})->name(), "cpu (avx2, 2 threads)");
  }
}

}  // namespace
}  // namespace litespark::test
