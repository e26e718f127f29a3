// SPDX-License-Identifier: Apache-2.0
// The backend itself: the device, its memory, and what happens when there is not enough.
#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "ops/cuda/cuda_conformance.h"
#include "support/error_text.h"

namespace litespark::test {

Backend& cuda_backend() {
  static const std::unique_ptr<Backend> backend = make_cuda_backend({});
  return *backend;
}

namespace {

class NeedsDevice : public ::testing::Environment {
 public:
  void SetUp() override {
    if (cuda_device_count() > 0) return;
    // A skip from here would count every test as passed; CTest knows this line.
    std::puts("[  SKIPPED ] no CUDA device here");
    std::exit(77);
  }
};
const auto* const kNeedsDevice = ::testing::AddGlobalTestEnvironment(new NeedsDevice);

TEST(CudaBackend, NamesItsDevice) {
  EXPECT_EQ(cuda_backend().device(), Device::kCuda);
  EXPECT_NE(cuda_backend().name().find("sm_"), std::string::npos) << cuda_backend().name();
}

TEST(CudaBackend, MemoryIsAlignedAndZero) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{5} << 20}) {
    const auto memory = cuda_backend().allocate(bytes);
    EXPECT_EQ(memory->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 256, 0u);
    std::vector<char> host(static_cast<size_t>(bytes), 'x');
    cuda_backend().copy_to_host(host.data(), memory->data(), bytes);
    EXPECT_EQ(host, std::vector<char>(static_cast<size_t>(bytes), 0));
  }
}

TEST(CudaBackend, CountsWhatItHasGivenOut) {  // claim:L12
  const MemoryUse before = cuda_backend().memory_use();
  auto memory = cuda_backend().allocate(int64_t{64} << 20);
  const MemoryUse with = cuda_backend().memory_use();
  EXPECT_EQ(with.num_allocations, before.num_allocations + 1);
  EXPECT_EQ(with.allocated_bytes, before.allocated_bytes + (int64_t{64} << 20));
  EXPECT_GE(with.used_bytes.value(), before.used_bytes.value());
  memory.reset();
  EXPECT_EQ(cuda_backend().memory_use().allocated_bytes, before.allocated_bytes);
}

// fault:B15: more than the card has is a refusal with both sizes, and the device works on.
TEST(CudaBackend, RefusesMoreMemoryThanThereIs) {
  EXPECT_THROW(cuda_backend().allocate(int64_t{1} << 50), ConfigError);
  EXPECT_EQ(cuda_backend().allocate(1 << 20)->bytes(), 1 << 20);
  EXPECT_NO_THROW(cuda_backend().synchronize());
}

TEST(CudaBackend, RefusesADeviceThatIsNotThere) {
  EXPECT_THROW(make_cuda_backend({.ordinal = 1000}), ConfigError);
  EXPECT_THROW(make_cuda_backend({.ordinal = -1}), ConfigError);
}

}  // namespace
}  // namespace litespark::test
