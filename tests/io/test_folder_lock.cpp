// SPDX-License-Identifier: Apache-2.0
// Locks between open files behave as between processes, so one process shows most of it; two real ones stand in
// tests/cli/test_run_lock.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "core/error.h"
#include "io/folder_lock.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

TEST(FolderLock, ASecondHolderIsRefusedWithTheFirstOnesNumber) {
  const test::TemporaryFolder folder;
  const FolderLock first(folder.path());
  EXPECT_TRUE(first.is_held());
  const std::string message = error_text<ConfigError>([&] { FolderLock second(folder.path()); });
  EXPECT_TRUE(contains(message, "process " + std::to_string(getpid()))) << message;
  EXPECT_TRUE(contains(message, folder.path().string())) << message;
}

TEST(FolderLock, IsFreeAgainWhenItsHolderIsGone) {
  const test::TemporaryFolder folder;
  std::optional<FolderLock> first(std::in_place, folder.path());
  first.reset();
  EXPECT_TRUE(FolderLock(folder.path()).is_held());
}

TEST(FolderLock, OtherFoldersAreNotConcerned) {
  const test::TemporaryFolder one;
  const test::TemporaryFolder other;
  const FolderLock first(one.path());
  EXPECT_TRUE(FolderLock(other.path()).is_held());
}

TEST(FolderLock, WhatAnotherProgramLeftInTheFileIsNoName) {
  const test::TemporaryFolder folder;
  const FolderLock first(folder.path());
  folder.write(kLockFile, "nonsense");
  const std::string message = error_text<ConfigError>([&] { FolderLock second(folder.path()); });
  EXPECT_TRUE(contains(message, "process unknown")) << message;
}

TEST(FolderLock, AFileThatMayOnlyBeReadIsEnough) {
  const test::TemporaryFolder folder;
  folder.write(kLockFile, "1\n");
  std::filesystem::permissions(folder.path() / kLockFile, std::filesystem::perms::owner_read);
  const FolderLock first(folder.path());
  EXPECT_TRUE(first.is_held());
  EXPECT_THROW(FolderLock(folder.path()), ConfigError);
}

TEST(FolderLock, ALinkInPlaceOfTheFileIsRefusedAsOne) {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink("elsewhere", folder.path() / kLockFile);
  const std::string message = error_text<IoError>([&] { FolderLock lock(folder.path()); });
  EXPECT_TRUE(contains(message, "got a symbolic link, expected a regular file or nothing")) << message;
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "elsewhere"));
}

TEST(FolderLock, AFolderThatIsNotThereIsAStorageError) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(FolderLock(folder.path() / "absent"), IoError);
}

}  // namespace
}  // namespace litespark
