// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "core/error.h"

namespace litespark {
namespace {

template <class Found, class Expected>
std::string message(const Found& found, const Expected& expected) {
  return ConfigError("section.field", "out of range", found, expected).what();
}

TEST(Error, SaysWhereWhatWasFoundAndWhatWasExpected) {
  EXPECT_STREQ(IoError("shard", "cannot be read").what(), "[shard] cannot be read");
  EXPECT_STREQ(DataError("shard", "too short", 3, 4).what(), "[shard] too short; got 3, expected 4");
  EXPECT_STREQ(DataError("shard", "too short", 3, 4, "copy it again").what(),
               "[shard] too short; got 3, expected 4; copy it again");
}

TEST(Error, PrintsWhatItIsGivenAsAStreamDoes) {
  EXPECT_EQ(message("a", std::string("b")), "[section.field] out of range; got a, expected b");
  EXPECT_EQ(message('c', std::string_view("d")), "[section.field] out of range; got c, expected d");
  EXPECT_EQ(message(true, 0.1f), "[section.field] out of range; got 1, expected 0.1");
  EXPECT_EQ(message(1e-7, 123456789.0), "[section.field] out of range; got 1e-07, expected 1.23457e+08");
  EXPECT_EQ(message(std::numeric_limits<int64_t>::min(), std::numeric_limits<uint64_t>::max()),
            "[section.field] out of range; got -9223372036854775808, expected 18446744073709551615");
  EXPECT_EQ(message(int16_t{-2}, uint32_t{7}), "[section.field] out of range; got -2, expected 7");
}

TEST(Error, NamesFromFilesCannotSteerATerminal) {
  EXPECT_STREQ(DataError("a\x1b[2J\nb", "line 1\nline 2\x07").what(), "[a\\x1b[2J\\x0ab] line 1\nline 2\\x07");
  EXPECT_STREQ(DataError("a", "b", "c\n\x1b", "d\r", "e\b").what(), "[a] b; got c\\x0a\\x1b, expected d\\x0d; e\\x08");
}

TEST(Error, CarriesTheExitCodeOfItsClass) {
  EXPECT_EQ(ConfigError("a", "b").exit_code(), ExitCode::kConfig);
  EXPECT_EQ(InternalError("a", "b").exit_code(), ExitCode::kInternal);
}

}  // namespace
}  // namespace litespark
