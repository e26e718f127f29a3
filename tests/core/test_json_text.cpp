// SPDX-License-Identifier: Apache-2.0
// Escapes and numbers as RFC 8259 wants them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/json_text.h"

namespace litespark {
namespace {

TEST(JsonText, EscapesQuotesBackslashesAndControlBytes) {
  EXPECT_EQ(json_string("a\"b\\c\n\r\t"), "\"a\\\"b\\\\c\\n\\r\\t\"");
  EXPECT_EQ(json_string(std::string("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\\u007f\"");
  EXPECT_EQ(json_string("gr\xc3\xbcn"), "\"gr\xc3\xbcn\"");
}

TEST(JsonText, NumbersReadBackAsTheSameDouble) {
  for (const double value : {0.1, 1.0 / 3.0, 1e-300, 6.02214076e23, -0.0, std::numeric_limits<double>::denorm_min(),
                             std::numeric_limits<double>::max()}) {
    EXPECT_EQ(std::strtod(json_number(value).c_str(), nullptr), value);
  }
  EXPECT_EQ(json_number(400.0), "400.0");
  EXPECT_EQ(json_number(-0.0), "-0.0");
  EXPECT_EQ(json_number(3e-4), "3e-4");
}

TEST(JsonText, WhatJsonCannotSayIsNull) {
  EXPECT_EQ(json_number(std::nan("")), "null");
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "null");
}

}  // namespace
}  // namespace litespark
