// SPDX-License-Identifier: Apache-2.0
// 8-bit floats against a search among all codes: every code, every midpoint between two, and their neighbours.
#include <gtest/gtest.h>

#include <cmath>

#include "core/fp8.h"
#include "core/rng.h"
#include "reference/fp8.h"

namespace litespark {
namespace {

constexpr DType kFormats[] = {DType::kE4M3, DType::kE5M2};

bool is_nan_code(DType format, uint8_t code) {
  return std::isnan(reference::fp8_value(format, code));
}

void expect_nearest(DType format, float value) {
  EXPECT_EQ(int{to_fp8(format, value)}, int{reference::nearest_fp8(format, static_cast<double>(value))})
      << dtype_name(format) << " " << value;
}

TEST(Fp8, EveryCodeHasTheValueOfItsBitsAndComesBack) {
  for (const DType format : kFormats) {
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<uint8_t>(code);
      const float value = fp8_to_float(format, byte);
      if (is_nan_code(format, byte)) {
        EXPECT_TRUE(std::isnan(value)) << code;
        EXPECT_TRUE(is_nan_code(format, to_fp8(format, value))) << code;
        continue;
      }
      EXPECT_EQ(static_cast<double>(value), reference::fp8_value(format, byte)) << code;
      EXPECT_EQ(std::signbit(value), code >= 128) << code;
      if (std::isfinite(value)) {
        EXPECT_EQ(int{to_fp8(format, value)}, code);
      }
    }
  }
}

TEST(Fp8, RoundsToNearestWithTiesToEven) {
  for (const DType format : kFormats) {
    for (int code = 0; code + 1 < 0x7f; ++code) {
      const float low = fp8_to_float(format, static_cast<uint8_t>(code));
      const float high = fp8_to_float(format, static_cast<uint8_t>(code + 1));
      if (!std::isfinite(high) || std::isnan(high)) break;
      const float middle = 0.5f * (low + high);
      for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
        expect_nearest(format, value);
        expect_nearest(format, -value);
      }
    }
  }
}

TEST(Fp8, RoundsRandomFloatsOfEverySize) {
  const RandomStream stream(7, 1);
  for (const DType format : kFormats) {
    for (uint64_t i = 0; i < 20000; ++i) {
      const auto exponent = static_cast<int>(stream.below(i, 48)) - 30;
      expect_nearest(format, static_cast<float>(std::ldexp(stream.normal(i), exponent)));
    }
  }
}

TEST(Fp8, SaturatesAndKeepsNan) {
  for (const DType format : kFormats) {
    const float largest = fp8_largest(format);
    const auto end = static_cast<int>(reference::nearest_fp8(format, static_cast<double>(largest)));
    EXPECT_EQ(static_cast<float>(reference::fp8_value(format, static_cast<uint8_t>(end))), largest);
    EXPECT_FALSE(std::isfinite(reference::fp8_value(format, static_cast<uint8_t>(end + 1))));
    for (const float value : {largest * 1.01f, largest * 2, 1e38f, INFINITY}) {
      EXPECT_EQ(int{to_fp8(format, value)}, end);
      EXPECT_EQ(int{to_fp8(format, -value)}, end | 0x80);
    }
    EXPECT_TRUE(is_nan_code(format, to_fp8(format, NAN)));
  }
}

TEST(Fp8, WhatIsFlushedToZeroIsToldByItsMagnitude) {
  for (const DType format : kFormats) {
    const float limit = fp8_flushed_below(format);
    EXPECT_EQ(int{to_fp8(format, limit)}, 0);
    EXPECT_NE(int{to_fp8(format, std::nextafter(limit, 1.0f))}, 0);
  }
}

TEST(Fp8, TheScaleBringsTheLargestMagnitudeToTheFormatsEnd) {
  for (const DType format : kFormats) {
    for (const float abs_max : {1e-20f, 0.37f, 1.0f, 448.0f, 3e4f, 3e38f}) {
      const Fp8Scale scale = fp8_scale(abs_max, format);
      EXPECT_EQ(fp8_to_float(format, to_fp8(format, abs_max * scale.quantise)), fp8_largest(format)) << abs_max;
      EXPECT_NEAR(fp8_largest(format) * scale.dequantise / abs_max, 1.0f, 1e-6f);
      EXPECT_TRUE(std::isnormal(scale.quantise) && std::isnormal(scale.dequantise));
    }
  }
}

TEST(Fp8, ZerosAndTinyTensorsGetAFiniteScale) {  // fault:C13
  for (const float abs_max : {0.0f, 1e-45f, 1e-38f}) {
    const Fp8Scale scale = fp8_scale(abs_max, DType::kE4M3);
    EXPECT_TRUE(std::isnormal(scale.quantise) && std::isnormal(scale.dequantise)) << abs_max;
  }
}

TEST(Fp8, InfAndNanMakeTheProductsNan) {
  for (const float abs_max : {INFINITY, NAN}) {
    EXPECT_EQ(fp8_scale(abs_max, DType::kE4M3).quantise, 1.0f);
    EXPECT_TRUE(std::isnan(fp8_scale(abs_max, DType::kE4M3).dequantise));
  }
}

}  // namespace
}  // namespace litespark
