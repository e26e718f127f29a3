// SPDX-License-Identifier: Apache-2.0
// Atomic writes under a file system that fails at every point (fault:A3, fault:A5, report:B36), and what stands where a
// regular file is expected (fault:A14).
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "io/file.h"
#include "support/error_text.h"
#include "support/failing_file_system.h"
#include "support/power_loss.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;
using test::FailingFileSystem;
using test::file_text;
using test::TemporaryFolder;

size_t num_files(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(File, IsThereOnlyAfterCommit) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a.txt";
  {
    AtomicFile file(path);
    file.write("hello ");
    file.write("world");
    EXPECT_EQ(file.bytes_written(), 11);
    EXPECT_FALSE(fs::exists(path));
    file.commit();
    EXPECT_EQ(file_text(path), "hello world");
    EXPECT_THROW(file.write("more"), InternalError);
    EXPECT_THROW(file.commit(), InternalError);
  }
  { AtomicFile(path).write("given up"); }
  EXPECT_EQ(file_text(path), "hello world");
  EXPECT_EQ(num_files(folder.path()), 1U);
}

TEST(File, SurvivesAFailureOfAnyCall) {
  for (const int error : {ENOSPC, EIO, EDQUOT}) {
    for (int64_t call = 0;; ++call) {
      const TemporaryFolder folder;
      const fs::path path = folder.write("a.txt", "old");
      FailingFileSystem failing({.at_call = call, .error = error});
      const ScopedFileSystem scope(failing);
      std::string message;
      try {
        write_text_file(path, "new text");
      } catch (const IoError& e) {
        message = e.what();
      }
      if (!failing.has_failed()) {
        EXPECT_EQ(call, 6);  // open, write, fsync, close, rename, fsync of the folder
        EXPECT_EQ(file_text(path), "new text");
        break;
      }
      EXPECT_TRUE(contains(message, call == 5 ? folder.path().string() : path.string())) << call;
      EXPECT_EQ(message.find("after 0 bytes") != std::string::npos, call < 2) << call;
      // The last point comes after the rename: the new file is whole, though perhaps not durable.
      EXPECT_EQ(file_text(path), call == 5 ? "new text" : "old") << call;
      EXPECT_EQ(num_files(folder.path()), 1U) << call;
    }
  }
}

TEST(File, HoldsTheOldOrTheNewTextAfterACrashAtAnyCall) {
  for (int64_t call = 0; call < 6; ++call) {
    const TemporaryFolder folder;
    const fs::path path = folder.write("a.txt", "old");
    {
      FailingFileSystem failing({.at_call = call, .kind = FailingFileSystem::Kind::kCrash});
      const ScopedFileSystem scope(failing);
      EXPECT_THROW(write_text_file(path, "new text"), IoError);
      EXPECT_TRUE(failing.has_failed());
    }
    EXPECT_EQ(file_text(path), call == 5 ? "new text" : "old") << call;
    write_text_file(path, "after restart");
    EXPECT_EQ(file_text(path), "after restart");
  }
}

TEST(File, HoldsTheOldOrTheNewTextAfterAPowerLossAtAnyCall) {  // fault:A2
  bool is_off = true;
  for (int64_t call = 0; is_off; ++call) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const TemporaryFolder folder;
      const fs::path path = folder.write("a.txt", "old");
      test::PowerLossFileSystem disk(call);
      {
        const ScopedFileSystem scope(disk);
        try {
          write_text_file(path, "new text");
        } catch (const IoError&) {
          EXPECT_TRUE(disk.is_off());
        }
      }
      is_off = disk.is_off();
      disk.lose(seed);
      const std::string text = file_text(path);
      EXPECT_TRUE(text == "new text" || (text == "old" && is_off)) << call << " " << seed << " " << text;
    }
  }
}

TEST(File, ContinuesAfterAShortWrite) {
  const TemporaryFolder folder;
  FailingFileSystem failing({.at_call = 0, .kind = FailingFileSystem::Kind::kShortWrite, .only = "write"});
  const ScopedFileSystem scope(failing);
  write_text_file(folder.path() / "a", "0123456789");
  EXPECT_TRUE(failing.has_failed());
  EXPECT_EQ(failing.calls(), 2);
  EXPECT_EQ(file_text(folder.path() / "a"), "0123456789");
}

TEST(File, SaysHowManyBytesWereWrittenWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  FailingFileSystem failing({.at_call = 2, .error = ENOSPC, .only = "write"});
  const ScopedFileSystem scope(failing);
  AtomicFile file(folder.path() / "weights");
  file.write(std::string(1000, 'x'));
  file.write(std::string(500, 'x'));
  const std::string message = error_text<IoError>([&] { file.write(std::string(500, 'x')); });
  EXPECT_TRUE(contains(message, "weights"));
  EXPECT_TRUE(contains(message, "after 1500 bytes"));
  EXPECT_TRUE(contains(message, "No space left"));
}

TEST(File, RefusesWhatIsNotARegularFileWithoutWaiting) {  // fault:A14
  const TemporaryFolder folder;
  const fs::path fifo = folder.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(contains(error_text<DataError>([&] { InputFile file(fifo); }), "a FIFO"));
  EXPECT_TRUE(contains(error_text<IoError>([&] { AtomicFile file(fifo); }), "a FIFO"));
  EXPECT_TRUE(contains(error_text<DataError>([&] { InputFile file(folder.path()); }), "a folder"));
  EXPECT_TRUE(contains(error_text<IoError>([&] { AtomicFile file(folder.path()); }), "a folder"));
  EXPECT_TRUE(contains(error_text<DataError>([&] { InputFile file("/dev/zero"); }), "a device"));
  EXPECT_TRUE(contains(error_text<IoError>([&] { AtomicFile file("/dev/null"); }), "a device"));
  EXPECT_TRUE(contains(error_text<IoError>([&] { InputFile file(folder.path() / "none"); }), "cannot open"));
  EXPECT_TRUE(
      contains(error_text<IoError>([&] { AtomicFile file(folder.path() / "no" / "folder"); }), "cannot create"));
  EXPECT_EQ(num_files(folder.path()), 1U);
}

TEST(File, FollowsLinksOnlyWhereTheyAreExpectedAndNeverWritesThroughOne) {  // fault:A14
  const TemporaryFolder folder;
  const fs::path target = folder.write("target", "secret");
  const fs::path link = folder.path() / "link";
  fs::create_symlink(target, link);
  EXPECT_EQ(read_text_file(link, 100), "secret");
  EXPECT_TRUE(contains(error_text<DataError>([&] { read_text_file(link, 100, Symlinks::kRefuse); }), "symbolic link"));
  EXPECT_TRUE(contains(error_text<IoError>([&] { write_text_file(link, "new"); }), "a symbolic link"));
  EXPECT_EQ(file_text(target), "secret");
}

TEST(File, KeepsNamesFromFilesInsideTheirFolder) {  // fault:A14, fault:D4
  EXPECT_EQ(path_inside("folder", "a/b.txt", "index"), fs::path("folder/a/b.txt"));
  EXPECT_EQ(path_inside("folder", "..a", "index"), fs::path("folder/..a"));
  for (const std::string name :
       {"", "/etc/passwd", "..", "../a", "a/../b", "a/..", "a//b", "./a", "a/.", "a/", "a\\b", "a\nb"}) {
    EXPECT_TRUE(contains(error_text<DataError>([&] { path_inside("folder", name, "index"); }), "[index]")) << name;
  }
  EXPECT_THROW(path_inside("folder", std::string("a\0b", 3), "index"), DataError);
  EXPECT_THROW(path_inside("folder", std::string(2000, 'x'), "index"), DataError);
}

TEST(File, SeesLinksThatLeadOutOfAFolder) {  // fault:A14
  const TemporaryFolder inside;
  const TemporaryFolder outside;
  fs::create_symlink(outside.write("secret", "x"), inside.path() / "link");
  fs::create_directory(inside.path() / "sub");
  fs::create_directory_symlink(outside.path(), inside.path() / "sub" / "folder");
  inside.write("plain", "x");
  EXPECT_NO_THROW(require_inside(inside.path() / "plain", inside.path()));
  EXPECT_NO_THROW(require_inside(inside.path() / "sub" / ".." / "plain", inside.path()));
  EXPECT_THROW(require_inside(inside.path() / "link", inside.path()), DataError);
  EXPECT_THROW(require_inside(inside.path() / "sub" / "folder" / "secret", inside.path()), DataError);
  EXPECT_THROW(require_inside(outside.path() / "secret", inside.path()), DataError);
  EXPECT_THROW(require_inside(inside.path() / "none", inside.path()), IoError);
}

TEST(File, ReadsNoMoreThanItMay) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("a", "0123456789");
  EXPECT_EQ(read_text_file(path, 10), "0123456789");
  EXPECT_TRUE(contains(error_text<DataError>([&] { read_text_file(path, 9); }), "too long"));
  const InputFile file(path);
  std::string text(4, '\0');
  file.read_at(6, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "6789");
  EXPECT_TRUE(contains(error_text<DataError>([&] { file.read_at(7, std::as_writable_bytes(std::span(text))); }),
                       "ends too early"));
}

TEST(File, CopiesAndHashesFilesLongerThanOnePiece) {
  const TemporaryFolder folder;
  std::string text(3000001, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + i / 977);
  const fs::path path = folder.write("a", text);
  copy_file_bytes(path, folder.path() / "b");
  EXPECT_EQ(file_text(folder.path() / "b"), text);
  EXPECT_EQ(hash_file(folder.path() / "b"), hash_bytes(std::as_bytes(std::span(text))));
  text[2000000] = static_cast<char>(text[2000000] ^ 1);
  EXPECT_NE(hash_file(path), hash_bytes(std::as_bytes(std::span(text))));
  // xxhsum -H2 of an empty file.
  EXPECT_EQ(hash_file(folder.write("empty", "")), "99aa06d3014798d86001c324468d497f");
}

TEST(File, KnowsTheFreeSpace) {
  const TemporaryFolder folder;
  EXPECT_GT(free_bytes(folder.path()), 0);
  EXPECT_THROW(free_bytes(folder.path() / "none"), IoError);
  EXPECT_NO_THROW(sync_folder(folder.path()));
  EXPECT_THROW(sync_folder(folder.path() / "none"), IoError);
}

TEST(File, ALogGrowsAtItsEndOverRestarts) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "log";
  {
    AppendFile log(path);
    EXPECT_EQ(log.size_before(), 0);
    log.append("one\n");
    log.append("two\n");
  }
  AppendFile log(path);
  EXPECT_EQ(log.size_before(), 8);
  FailingFileSystem failing({.at_call = 0, .kind = FailingFileSystem::Kind::kShortWrite, .only = "write"});
  const ScopedFileSystem scope(failing);
  log.append("three\n");
  EXPECT_TRUE(failing.has_failed());
  EXPECT_EQ(file_text(path), "one\ntwo\nthree\n");
}

TEST(File, ALogOnAFullOrBrokenDiskSaysSo) {  // fault:A3, fault:A5
  for (const int error : {ENOSPC, EIO}) {
    const TemporaryFolder folder;
    AppendFile log(folder.path() / "log");
    FailingFileSystem failing({.at_call = 0, .error = error});
    const ScopedFileSystem scope(failing);
    EXPECT_TRUE(contains(error_text<IoError>([&] { log.append("x"); }), "cannot be appended to"));
  }
}

TEST(File, ALogRefusesWhatIsNotARegularFileWithoutWaiting) {  // fault:A14
  const TemporaryFolder folder;
  const fs::path fifo = folder.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(contains(error_text<IoError>([&] { AppendFile log(fifo); }), "a FIFO"));
  EXPECT_TRUE(contains(error_text<IoError>([&] { AppendFile log(folder.path()); }), "a folder"));
  const fs::path full = folder.path() / "full";
  fs::create_symlink("/dev/full", full);
  EXPECT_TRUE(contains(error_text<IoError>([&] { AppendFile log(full); }), "a device"));
  const fs::path loop = folder.path() / "loop";
  fs::create_symlink("loop", loop);
  EXPECT_TRUE(contains(error_text<IoError>([&] { AppendFile log(loop); }), "symbolic links"));
}

TEST(File, OnlyWhatNobodyMadeIsAbsent) {
  const TemporaryFolder folder;
  EXPECT_FALSE(is_present(folder.path() / "none"));
  EXPECT_TRUE(is_present(folder.write("some", "")));
  fs::create_symlink("loop", folder.path() / "loop");
  EXPECT_TRUE(is_present(folder.path() / "loop"));
}

TEST(File, NoticesAChangeInPlace) {  // fault:D15
  const TemporaryFolder folder;
  const fs::path path = folder.write("shard", "12345678");
  const InputFile file(path);
  EXPECT_NO_THROW(file.require_unchanged());
  folder.write("shard", "12345679");
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_TRUE(contains(error_text<DataError>([&] { file.require_unchanged(); }), "shard"));
  const InputFile again(path);
  fs::resize_file(path, 4);
  EXPECT_TRUE(contains(error_text<DataError>([&] { again.require_unchanged(); }), "4 bytes"));
}

}  // namespace
}  // namespace litespark
