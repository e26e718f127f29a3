// SPDX-License-Identifier: Apache-2.0
// A real CUDA failure: it cannot be undone within a process, so each happens in a process of its own.
#include <cstdlib>
#include <iostream>

#include "core/error.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

/// Writes through a pointer to nowhere, then looks at what the next calls say. Ends the process: 8 when both the wait
/// and a call after it are DeviceErrors.
[[noreturn]] void write_to_nowhere() {
  constexpr int64_t kSize = 1024;
  const auto half = cuda_backend().allocate(kSize * 2);
  const Tensor source{.data = half->data(), .dtype = DType::kBF16, .shape = {kSize}, .device = Device::kCuda};
  const Tensor nowhere{
      .data = reinterpret_cast<void*>(0x1000), .dtype = DType::kF32, .shape = {kSize}, .device = Device::kCuda};
  try {
    cuda_backend().run(op::Convert<Tensor>{.out = nowhere, .x = source});
    cuda_backend().synchronize();
  } catch (const DeviceError& error) {
    std::cerr << error.what() << std::endl;
    try {
      cuda_backend().allocate(kSize);
    } catch (const DeviceError& again) {
      std::cerr << "and then: " << again.what() << std::endl;
      std::_Exit(static_cast<int>(again.exit_code()));
    }
  }
  std::_Exit(0);
}

TEST(CheckDeathTest, AWriteToNowhereIsADeviceErrorAndStaysOne) {  // fault:B15
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(write_to_nowhere(), testing::ExitedWithCode(8), "illegal.*and then");
}

TEST(Check, MissingMemoryIsNoFaultOfTheDevice) {
  EXPECT_THROW(cuda::check(cudaErrorMemoryAllocation, "test"), ConfigError);
  EXPECT_THROW(cuda::check(cudaErrorIllegalAddress, "test"), DeviceError);
  EXPECT_NO_THROW(cuda::check(cudaSuccess, "test"));
}

}  // namespace
}  // namespace litespark::test
