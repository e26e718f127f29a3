// SPDX-License-Identifier: Apache-2.0
// The operands that algorithms are timed on look random, and a bias is rounded to bf16 exactly.
#include <cmath>
#include <cstring>

#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/cuda_conformance.h"
#include "ops/cuda/matmul_plan.h"

namespace litespark::test {
namespace {

TEST(MatmulFill, ValuesFillTheOpenUnitIntervalEvenly) {
  cuda::CudaBackend backend({});
  constexpr int64_t kCount = 100000;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto memory = backend.allocate(kCount * dtype_bytes(dtype));
    cuda::fill_random(memory->data(), dtype, kCount, 3, backend.context().stream);
    std::vector<std::byte> bytes(static_cast<size_t>(memory->bytes()));
    backend.copy_to_host(bytes.data(), memory->data(), memory->bytes());
    double sum = 0;
    double squares = 0;
    for (const double value : decode(dtype, bytes)) {
      ASSERT_LE(std::abs(value), 1.0);
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(sum / kCount, 0.0, 0.02);
    EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.02);
  }
}

TEST(MatmulFill, ABiasIsRoundedToNearest) {
  cuda::CudaBackend backend({});
  const std::vector<double> values = random_normal(DType::kF32, 1000, 5);
  const std::vector<std::byte> source = encode(DType::kF32, values);
  const auto in = backend.allocate(static_cast<int64_t>(source.size()));
  const auto out = backend.allocate(2000);
  backend.copy_to_device(in->data(), source.data(), in->bytes());
  cuda::round_to_bf16(out->data(), static_cast<const float*>(in->data()), 1000, backend.context().stream);
  std::vector<std::byte> bytes(2000);
  backend.copy_to_host(bytes.data(), out->data(), 2000);
  EXPECT_EQ(bytes, encode(DType::kBF16, values));
}

}  // namespace
}  // namespace litespark::test
