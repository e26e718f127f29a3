// SPDX-License-Identifier: Apache-2.0
// Marks on the stream: in order, around the work between them, used again without new events.
#include <algorithm>

#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

TEST(Timer, MarksStandAroundTheOpsBetweenThem) {
  constexpr int64_t kSize = int64_t{1} << 26;
  const auto from = cuda_backend().allocate(kSize * 4);
  const auto to = cuda_backend().allocate(kSize * 2);
  const op::Convert<Tensor> convert{
      .out = {.data = to->data(), .dtype = DType::kBF16, .shape = {kSize}, .device = Device::kCuda},
      .x = {.data = from->data(), .dtype = DType::kF32, .shape = {kSize}, .device = Device::kCuda}};
  const auto timer = cuda_backend().make_timer();
  for (int round = 0; round < 2; ++round) {
    timer->mark();
    timer->mark();
    cuda_backend().run(convert);
    timer->mark();
    const std::vector<double> seconds = timer->take();
    ASSERT_EQ(seconds.size(), 3u);
    EXPECT_EQ(seconds[0], 0.0);
    EXPECT_TRUE(std::is_sorted(seconds.begin(), seconds.end()));
    EXPECT_GT(seconds[2], seconds[1]);
  }
  EXPECT_TRUE(timer->take().empty());
}

}  // namespace
}  // namespace litespark::test
