// SPDX-License-Identifier: Apache-2.0
// Copies through the staging ring: every size around its slots, ordered with the ops.
#include <cstring>

#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

constexpr int64_t kSlotBytes = int64_t{1} << 20;
constexpr int64_t kRingBytes = 32 * kSlotBytes;

std::vector<unsigned char> pattern(int64_t bytes, unsigned seed) {
  std::vector<unsigned char> data(static_cast<size_t>(bytes));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>((i * 2654435761u + seed) >> 13);
  return data;
}

TEST(Transfer, BytesSurviveTheRoundTripAtAnySize) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4097}, kSlotBytes - 1, kSlotBytes, kSlotBytes + 1,
                              kRingBytes, 2 * kRingBytes + 12345}) {
    const auto memory = cuda_backend().allocate(bytes);
    const auto source = pattern(bytes, 7);
    cuda_backend().copy_to_device(memory->data(), source.data(), bytes);
    std::vector<unsigned char> back(source.size(), 0xEE);
    cuda_backend().copy_to_host(back.data(), memory->data(), bytes);
    EXPECT_TRUE(back == source) << bytes << " bytes";
  }
}

TEST(Transfer, SourceMayBeReusedAtOnce) {
  const auto memory = cuda_backend().allocate(64 * kSlotBytes);
  std::vector<unsigned char> source;
  for (int64_t part = 0; part < 64; ++part) {
    source = pattern(kSlotBytes, static_cast<unsigned>(part));
    cuda_backend().copy_to_device(static_cast<std::byte*>(memory->data()) + part * kSlotBytes, source.data(),
                                  kSlotBytes);
    std::memset(source.data(), 0, source.size());
  }
  std::vector<unsigned char> back(static_cast<size_t>(kSlotBytes));
  for (int64_t part = 0; part < 64; ++part) {
    cuda_backend().copy_to_host(back.data(), static_cast<std::byte*>(memory->data()) + part * kSlotBytes, kSlotBytes);
    EXPECT_TRUE(back == pattern(kSlotBytes, static_cast<unsigned>(part))) << part;
  }
}

}  // namespace
}  // namespace litespark::test
