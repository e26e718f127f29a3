// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "core/error.h"
#include "dist/secret.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark::dist {
namespace {

std::string file_with(const test::TemporaryFolder& folder, const std::string& text, mode_t mode) {
  const std::string path = (folder.path() / "secret").string();
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
  return path;
}

TEST(Secret, ComesFromAFileThatOnlyItsOwnerReads) {
  const test::TemporaryFolder folder;
  const std::string text(32, 's');
  EXPECT_EQ(Secret::from_file(file_with(folder, text, 0600)).bytes(), text);
  EXPECT_EQ(Secret::from_file(file_with(folder, text, 0400)).bytes(), text);
}

TEST(Secret, RefusesAFileThatOthersCouldReadAndSaysWhatToDo) {
  const test::TemporaryFolder folder;
  for (const mode_t mode : {0640u, 0604u, 0660u, 0666u}) {
    const std::string path = file_with(folder, std::string(32, 's'), mode);
    EXPECT_TRUE(contains(error_text<ConfigError>([&] { Secret::from_file(path); }), "chmod 600 " + path));
  }
}

TEST(Secret, RefusesWhatIsNoSecret) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(Secret::from_file(file_with(folder, "short", 0600)), ConfigError);
  EXPECT_THROW(Secret::from_file(file_with(folder, std::string(5000, 's'), 0600)), ConfigError);
  EXPECT_THROW(Secret::from_file((folder.path() / "absent").string()), ConfigError);
  const std::string fifo = (folder.path() / "fifo").string();
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { Secret::from_file(fifo); }), "is no regular file"));
}

TEST(Secret, IsReadFromADescriptorOnceAndTheDescriptorIsClosed) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::string text(32, 'x');
  ASSERT_EQ(write(ends[1], text.data(), text.size()), 32);
  close(ends[1]);
  EXPECT_EQ(Secret::from_descriptor(ends[0]).bytes(), text);
  EXPECT_THROW(Secret::from_descriptor(ends[0]), ConfigError);
}

}  // namespace
}  // namespace litespark::dist
