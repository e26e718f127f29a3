// SPDX-License-Identifier: Apache-2.0
// Memory of the CPU backend: aligned, zeroed, refused when the machine has not got it.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark::test {
namespace {

TEST(CpuBackend, AllocatesZeroedAlignedMemory) {
  const auto backend = make_cpu_backend({.threads = 2});
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1000}, (int64_t{5} << 20) + 3}) {
    const auto memory = backend->allocate(bytes);
    EXPECT_EQ(memory->bytes(), bytes);
    const auto* data = static_cast<const char*>(memory->data());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % (bytes >= (int64_t{2} << 20) ? 2 << 20 : 256), 0u);
    EXPECT_TRUE(std::all_of(data, data + bytes, [](char byte) { return byte == 0; }));
  }
}

TEST(CpuBackend, RefusesMoreMemoryThanThereIs) {
  const auto backend = make_cpu_backend({.threads = 1});
  EXPECT_THROW(backend->allocate(int64_t{1} << 56), ConfigError);
  EXPECT_THROW(backend->allocate(-1), InternalError);
}

TEST(CpuBackend, CountsWhatItHasGivenOut) {  // claim:L12
  const auto backend = make_cpu_backend({.threads = 1});
  EXPECT_EQ(backend->memory_use().num_allocations, 0);
  auto first = backend->allocate(1000);
  const auto second = backend->allocate(int64_t{64} << 20);
  EXPECT_EQ(backend->memory_use().allocated_bytes, 1000 + (int64_t{64} << 20));
  EXPECT_GT(backend->memory_use().used_bytes.value(), int64_t{64} << 20);
  first.reset();
  EXPECT_EQ(backend->memory_use().allocated_bytes, int64_t{64} << 20);
  EXPECT_EQ(backend->memory_use().num_allocations, 2);
}

TEST(CpuBackend, CopiesBothWays) {
  const auto backend = make_cpu_backend({.threads = 1});
  const auto memory = backend->allocate(6);
  char back[6] = {};
  backend->copy_to_device(memory->data(), "spark", 6);
  backend->copy_to_host(back, memory->data(), 6);
  EXPECT_STREQ(back, "spark");
  EXPECT_EQ(backend->device(), Device::kCpu);
}

TEST(CpuBackend, PicksAtLeastOneThread) {
  EXPECT_NE(make_cpu_backend({})->name().find("thread"), std::string::npos);
}

}  // namespace
}  // namespace litespark::test
