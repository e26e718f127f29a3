// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cpu/cpu_backend.h"
#include "ops/device_timer.h"

namespace litespark::test {
namespace {

TEST(DeviceTimer, GivesEveryMarkOnceInOrderFromZero) {
  const std::unique_ptr<DeviceTimer> timer = make_host_timer();
  for (int i = 0; i < 5; ++i) timer->mark();
  const std::vector<double> seconds = timer->take();
  ASSERT_EQ(seconds.size(), 5u);
  EXPECT_EQ(seconds.front(), 0.0);
  EXPECT_TRUE(std::is_sorted(seconds.begin(), seconds.end()));
  EXPECT_TRUE(timer->take().empty());
}

TEST(DeviceTimer, ACpuBackendsMarksStandAroundItsOps) {
  const std::unique_ptr<Backend> backend = make_cpu_backend({.threads = 1});
  const std::unique_ptr<DeviceTimer> timer = backend->make_timer();
  const auto memory = backend->allocate(int64_t{4} << 20);
  const auto flat = [&](int64_t half) {
    return Tensor{.data = static_cast<std::byte*>(memory->data()) + half * (int64_t{2} << 20),
                  .dtype = DType::kF32,
                  .shape = {1 << 19},
                  .device = Device::kCpu};
  };
  timer->mark();
  backend->run(op::Convert<Tensor>{.out = flat(0), .x = flat(1)});
  timer->mark();
  const std::vector<double> seconds = timer->take();
  ASSERT_EQ(seconds.size(), 2u);
  EXPECT_GT(seconds[1], 0.0);
}

}  // namespace
}  // namespace litespark::test
