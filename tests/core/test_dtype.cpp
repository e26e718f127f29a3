// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/dtype.h"

namespace litespark {
namespace {

TEST(Fp16, RoundsToNearestEvenAndIsExactForEveryOneOfItsValues) {
  EXPECT_EQ(to_float(to_fp16(1.0f + 0x1p-11f)), 1.0f);                // tie, even below
  EXPECT_EQ(to_float(to_fp16(1.0f + 3 * 0x1p-11f)), 1.0f + 0x1p-9f);  // tie, even above
  EXPECT_EQ(to_float(to_fp16(1.0f + 0x1.1p-11f)), 1.0f + 0x1p-10f);
  EXPECT_EQ(to_float(to_fp16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(to_float(to_fp16(65520.0f))));
  EXPECT_EQ(to_float(to_fp16(0x1p-25f)), 0.0f);  // tie, even below
  EXPECT_EQ(to_float(to_fp16(-0x1.8p-25f)), -0x1p-24f);
  EXPECT_TRUE(std::isnan(to_float(to_fp16(std::numeric_limits<float>::quiet_NaN()))));
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = to_float(fp16{static_cast<uint16_t>(bits)});
    if (std::isnan(value)) continue;
    ASSERT_EQ(to_fp16(value).bits, bits);
  }
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(to_float(to_bf16(1.0f)), 1.0f);
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1p-8f)), 1.0f);                // tie, even below
  EXPECT_EQ(to_float(to_bf16(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);  // tie, even above
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1.1p-8f)), 1.0f + 0x1p-7f);
}

TEST(Bf16, KeepsInfinityNanAndDenormals) {
  EXPECT_TRUE(std::isinf(to_float(to_bf16(std::numeric_limits<float>::infinity()))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isinf(to_float(to_bf16(std::numeric_limits<float>::max()))));
  EXPECT_EQ(to_float(to_bf16(0x1p-130f)), 0x1p-130f);
  EXPECT_TRUE(std::signbit(to_float(to_bf16(-0.0f))));
}

TEST(Bf16, IsExactForEveryOneOfItsValues) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const bf16 value{static_cast<uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) continue;
    EXPECT_EQ(to_bf16(wide).bits, value.bits);
  }
}

TEST(DType, ParsesItsNamesAndRefusesOthers) {
  EXPECT_EQ(parse_dtype("bf16"), DType::kBF16);
  EXPECT_EQ(parse_dtype("float32"), DType::kF32);
  EXPECT_THROW(parse_dtype("fp8"), ConfigError);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
    EXPECT_GT(dtype_bytes(dtype), 0);
    EXPECT_FALSE(dtype_name(dtype).empty());
  }
}

}  // namespace
}  // namespace litespark
