// SPDX-License-Identifier: Apache-2.0
// Tensor maps: made for a matrix as it lies, refused where the hardware has no way to describe it.
#include <cstring>

#include "core/error.h"
#include "ops/cuda/cuda_conformance.h"
#include "ops/cuda/tensor_map.h"

namespace litespark::test {
namespace {

TEST(TensorMap, DescribesAMatrixAndRefusesRowsOfOddBytes) {
  if (cuda_backend().name().find("sm_90") == std::string::npos) GTEST_SKIP() << "no Hopper part here";
  const auto memory = cuda_backend().allocate(1 << 20);
  const CUtensorMap map = cuda::make_matrix_map({.data = memory->data(), .rows = 100, .columns = 320, .box_rows = 128});
  const CUtensorMap empty{};
  EXPECT_NE(std::memcmp(&map, &empty, sizeof(map)), 0);
  for (const int row_bytes : {64, 32}) {
    const CUtensorMap narrow = cuda::make_matrix_map(
        {.data = memory->data(), .rows = 100, .columns = 320, .box_rows = 128, .box_row_bytes = row_bytes});
    EXPECT_NE(std::memcmp(&narrow, &map, sizeof(map)), 0);
  }
  EXPECT_THROW(cuda::make_matrix_map({.data = memory->data(), .rows = 100, .columns = 321, .box_rows = 128}),
               DeviceError);
  EXPECT_THROW(cuda::make_matrix_map({.data = memory->data(), .rows = 100, .columns = 320, .box_rows = 300}),
               DeviceError);
}

}  // namespace
}  // namespace litespark::test
