// SPDX-License-Identifier: Apache-2.0
// Captured graphs: the same work as the ops one by one, again and again, on whatever the buffers hold.
#include "core/error.h"
#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

class GraphTest : public ::testing::Test {
 protected:
  Tensor flat(DType dtype) {
    memory_.push_back(cuda_backend().allocate(kSize * dtype_bytes(dtype)));
    return {.data = memory_.back()->data(), .dtype = dtype, .shape = {kSize}, .device = Device::kCuda};
  }
  void set(const Tensor& tensor, float value) {
    const std::vector<float> host(kSize, value);
    cuda_backend().copy_to_device(tensor.data, host.data(), tensor.bytes());
  }
  std::vector<float> get(const Tensor& tensor) {
    std::vector<float> host(kSize);
    cuda_backend().copy_to_host(host.data(), tensor.data, tensor.bytes());
    return host;
  }

  static constexpr int64_t kSize = 1000;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
};

TEST_F(GraphTest, LaunchRepeatsTheOpsOnFreshContents) {
  const Tensor x = flat(DType::kF32);
  const Tensor half = flat(DType::kBF16);
  const Tensor back = flat(DType::kF32);
  const auto graph = cuda_backend().capture([&] {
    cuda_backend().run(op::Convert<Tensor>{.out = half, .x = x});
    cuda_backend().run(op::Convert<Tensor>{.out = back, .x = half});
  });
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(get(back), std::vector<float>(kSize, 0.0f)) << "capturing must not execute";
  for (const float value : {1.0f, -3.5f, 256.0f}) {
    set(x, value);
    graph->launch();
    EXPECT_EQ(get(back), std::vector<float>(kSize, value));
  }
}

TEST_F(GraphTest, AnExceptionEndsTheCapture) {
  EXPECT_THROW(cuda_backend().capture([] { throw InternalError("test", "from inside"); }), InternalError);
  const Tensor x = flat(DType::kF32);
  set(x, 2.0f);
  EXPECT_EQ(get(x), std::vector<float>(kSize, 2.0f));
  EXPECT_NO_THROW(cuda_backend().synchronize());
}

}  // namespace
}  // namespace litespark::test
