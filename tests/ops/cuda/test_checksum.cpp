// SPDX-License-Identifier: Apache-2.0
// Checksums on the GPU are those of their definition, at sizes around a block's share.
#include <bit>
#include <numeric>

#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

uint64_t checksum_on_gpu(const std::vector<float>& values) {
  const auto size = static_cast<int64_t>(values.size());
  const auto x = cuda_backend().allocate(size * 4);
  const auto out = cuda_backend().allocate(8);
  cuda_backend().copy_to_device(x->data(), values.data(), size * 4);
  const op::Checksum<Tensor> op{
      .out = {.data = out->data(), .dtype = DType::kI64, .shape = {1}, .device = Device::kCuda},
      .x = {.data = x->data(), .dtype = DType::kF32, .shape = {size}, .device = Device::kCuda}};
  validate(op);
  cuda_backend().run(op);
  cuda_backend().run(op);  // overwrites
  uint64_t sum = 0;
  cuda_backend().copy_to_host(&sum, out->data(), 8);
  return sum;
}

TEST(Checksum, AgreesWithItsDefinition) {
  for (const size_t size : {size_t{1}, size_t{255}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{3000001}}) {
    std::vector<float> values(size);
    std::iota(values.begin(), values.end(), -3.25f);
    uint64_t expected = 0;
    for (size_t i = 0; i < size; ++i)
      expected += op::checksum_term(static_cast<int64_t>(i), std::bit_cast<uint32_t>(values[i]));
    EXPECT_EQ(checksum_on_gpu(values), expected) << size;
    values[size / 2] = std::bit_cast<float>(std::bit_cast<uint32_t>(values[size / 2]) ^ 1u);
    EXPECT_NE(checksum_on_gpu(values), expected) << size;
  }
}

}  // namespace
}  // namespace litespark::test
