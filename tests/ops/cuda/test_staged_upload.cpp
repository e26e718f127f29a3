// SPDX-License-Identifier: Apache-2.0
// Uploads beside the ops: every op sees the batch that was current when it was issued, however far the host is ahead.
#include <array>

#include "ops/cuda/cuda_conformance.h"
#include "ops/staged_upload.h"

namespace litespark::test {
namespace {

TEST(StagedUpload, EachOpSeesTheContentsOfItsOwnTurn) {
  constexpr int64_t kSize = int64_t{1} << 20;
  constexpr int kTurns = 40;
  const auto flat = [](const DeviceMemory& memory, int64_t first, int64_t size) {
    return Tensor{.data = static_cast<float*>(memory.data()) + first,
                  .dtype = DType::kF32,
                  .shape = {size},
                  .device = Device::kCuda};
  };
  const auto batch = cuda_backend().allocate(kSize * 4);
  const auto staging = cuda_backend().allocate(2 * kSize * 4);
  const auto seen = cuda_backend().allocate(kTurns * kSize * 4);
  const auto upload = cuda_backend().make_staged_upload(flat(*batch, 0, kSize), flat(*staging, 0, 2 * kSize));
  std::vector<float> values(static_cast<size_t>(kSize));
  for (int turn = 0; turn < kTurns; ++turn) {
    values.assign(values.size(), static_cast<float>(turn));
    upload->fill(std::array{StagedUpload::Part{.offset_bytes = 0, .source = values.data(), .bytes = kSize * 4}});
    // Twice, so that the host is ahead when the next upload starts.
    for (int i = 0; i < 2; ++i) {
      cuda_backend().run(op::Convert<Tensor>{.out = flat(*seen, turn * kSize, kSize), .x = flat(*batch, 0, kSize)});
    }
  }
  std::vector<float> back(static_cast<size_t>(kSize));
  for (int turn = 0; turn < kTurns; ++turn) {
    cuda_backend().copy_to_host(back.data(), static_cast<float*>(seen->data()) + turn * kSize, kSize * 4);
    ASSERT_TRUE(back == std::vector<float>(back.size(), static_cast<float>(turn))) << turn;
  }
}

}  // namespace
}  // namespace litespark::test
