// SPDX-License-Identifier: Apache-2.0
// Reads that do not wait: ordered with the ops around them, collected later, timed by the device.
#include "ops/async_read.h"
#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

struct AsyncReadTest : ::testing::Test {
  /// Large enough that the device is still at work when the host has issued it all.
  static constexpr int64_t kSize = int64_t{1} << 26;
  std::unique_ptr<DeviceMemory> memory = cuda_backend().allocate(kSize * 4);
  std::unique_ptr<DeviceMemory> halves = cuda_backend().allocate(kSize * 2);

  void convert_back_and_forth() const {
    const Tensor wide{.data = memory->data(), .dtype = DType::kF32, .shape = {kSize}, .device = Device::kCuda};
    const Tensor narrow{.data = halves->data(), .dtype = DType::kBF16, .shape = {kSize}, .device = Device::kCuda};
    cuda_backend().run(op::Convert<Tensor>{.out = narrow, .x = wide});
    cuda_backend().run(op::Convert<Tensor>{.out = wide, .x = narrow});
  }
  void set_first(float value) const { cuda_backend().copy_to_device(memory->data(), &value, sizeof(value)); }
  static float value_of(AsyncRead& read) { return *static_cast<const float*>(read.wait()); }
};

TEST_F(AsyncReadTest, HoldsWhatWasThereBetweenTheOpsAroundIt) {
  const auto first = cuda_backend().make_async_read(sizeof(float));
  const auto second = cuda_backend().make_async_read(sizeof(float));
  set_first(2.0f);
  convert_back_and_forth();
  first->start(memory->data());
  set_first(3.0f);
  convert_back_and_forth();
  second->start(memory->data());
  EXPECT_EQ(value_of(*first), 2.0f);
  EXPECT_EQ(value_of(*second), 3.0f);
  EXPECT_TRUE(first->is_done());
}

TEST_F(AsyncReadTest, StartsWithoutWaitingForTheOpsBeforeIt) {
  const auto read = cuda_backend().make_async_read(sizeof(float));
  for (int i = 0; i < 50; ++i) convert_back_and_forth();
  read->start(memory->data());
  EXPECT_FALSE(read->is_done()) << "the host waited for 50 passes over 256 MiB";
  static_cast<void>(read->wait());
  EXPECT_TRUE(read->is_done());
}

TEST_F(AsyncReadTest, MeasuresTheWorkBetweenTwoReads) {
  const auto before = cuda_backend().make_async_read(sizeof(float));
  const auto after = cuda_backend().make_async_read(sizeof(float));
  before->start(memory->data());
  for (int i = 0; i < 10; ++i) convert_back_and_forth();
  after->start(memory->data());
  static_cast<void>(after->wait());
  EXPECT_GT(after->seconds_since(*before), 0.0);
}

}  // namespace
}  // namespace litespark::test
