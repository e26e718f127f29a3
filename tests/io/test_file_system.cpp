// SPDX-License-Identifier: Apache-2.0
// The operating system behind the interface, and that a test can put something else in its place and take it away.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "io/file.h"
#include "io/file_system.h"
#include "support/failing_file_system.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

TEST(FileSystem, ReportsErrorsThroughErrno) {
  FileSystem& system = file_system();
  errno = 0;
  EXPECT_EQ(system.open("/no/such/file", O_RDONLY, 0), -1);
  EXPECT_EQ(errno, ENOENT);
  errno = 0;
  EXPECT_EQ(system.free_bytes("/no/such/file"), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(system.fsync(-1), -1);
  EXPECT_EQ(system.close(-1), -1);
}

TEST(FileSystem, IsReplacedForTheLifetimeOfAScopeOnly) {
  FileSystem* const usual = &file_system();
  {
    test::FailingFileSystem failing({});
    const ScopedFileSystem scope(failing);
    EXPECT_EQ(&file_system(), &failing);
    const test::TemporaryFolder folder;
    write_text_file(folder.path() / "a", "text");
    EXPECT_GT(failing.calls(), 0);
  }
  EXPECT_EQ(&file_system(), usual);
}

}  // namespace
}  // namespace litespark
