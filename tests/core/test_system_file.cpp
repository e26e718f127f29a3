// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "core/system_file.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

TEST(SystemFile, GivesAFileThatFits) {
  const test::TemporaryFolder folder;
  folder.write("load", "0.25 1\n");
  std::array<char, 64> buffer{};
  EXPECT_EQ(read_system_file((folder.path() / "load").c_str(), buffer), "0.25 1\n");
}

TEST(SystemFile, GivesTheBeginningOfALongerOne) {
  const test::TemporaryFolder folder;
  folder.write("load", "0123456789");
  std::array<char, 4> buffer{};
  EXPECT_EQ(read_system_file((folder.path() / "load").c_str(), buffer), "0123");
}

TEST(SystemFile, GivesNothingForWhatCannotBeRead) {
  const test::TemporaryFolder folder;
  std::array<char, 4> buffer{};
  EXPECT_EQ(read_system_file((folder.path() / "absent").c_str(), buffer), "");
  EXPECT_EQ(read_system_file(folder.path().c_str(), buffer), "");
}

TEST(SystemFile, ReadsWhatTheKernelMakesUp) {
  std::array<char, 8192> buffer{};
  EXPECT_NE(read_system_file("/proc/self/status", buffer).find("VmRSS:"), std::string_view::npos);
}

}  // namespace
}  // namespace litespark
