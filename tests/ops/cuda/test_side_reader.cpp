// SPDX-License-Identifier: Apache-2.0
// Reads beside the ops: from another thread, of what the ops before follow() left, while later ops go on.
#include <thread>

#include "ops/cuda/cuda_conformance.h"
#include "ops/side_reader.h"

namespace litespark::test {
namespace {

TEST(SideReader, SeesWhatTheOpsBeforeItLeftWhileOthersGoOn) {
  constexpr int64_t kSize = (int64_t{1} << 24) + 12345;
  const auto source = cuda_backend().allocate(kSize * 4);
  const auto half = cuda_backend().allocate(kSize * 2);
  const auto other = cuda_backend().allocate(kSize * 4);
  const Tensor wide{.data = source->data(), .dtype = DType::kF32, .shape = {kSize}, .device = Device::kCuda};
  const Tensor narrow{.data = half->data(), .dtype = DType::kBF16, .shape = {kSize}, .device = Device::kCuda};
  const Tensor elsewhere{.data = other->data(), .dtype = DType::kF32, .shape = {kSize}, .device = Device::kCuda};
  const std::vector<float> values(static_cast<size_t>(kSize), 2.5f);
  const auto reader = cuda_backend().make_side_reader();
  cuda_backend().copy_to_device(half->data(), std::vector<bf16>(static_cast<size_t>(kSize), to_bf16(2.5f)).data(),
                                kSize * 2);
  cuda_backend().run(op::Convert<Tensor>{.out = wide, .x = narrow});
  reader->follow();
  std::vector<float> back(static_cast<size_t>(kSize));
  std::thread copier([&] { reader->read(back.data(), source->data(), kSize * 4); });
  for (int i = 0; i < 100; ++i) cuda_backend().run(op::Convert<Tensor>{.out = elsewhere, .x = narrow});
  copier.join();
  EXPECT_TRUE(back == values);
  cuda_backend().synchronize();
}

}  // namespace
}  // namespace litespark::test
