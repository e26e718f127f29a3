// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "core/error.h"
#include "core/rng.h"
#include "io/file.h"
#include "io/file_system.h"
#include "io/sealed_folder.h"
#include "support/power_loss.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

struct SealedFolderTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path parent = scratch.path() / "sealed_folder_test";
  fs::path folder = parent / "step-7";

  void SetUp() override {
    fs::remove_all(parent);
    fs::create_directories(parent);
  }
  void write(const std::string& id = "a1") const {
    SealedFolderWriter writer(folder, id);
    write_text_file(writer.path() / "weights.bin", std::string(3000, 'w'));
    write_text_file(writer.path() / "state.json", "{\"step\": 7}");
    writer.seal();
  }
  std::string refusal() const {
    try {
      check_sealed_folder(folder);
      return "";
    } catch (const DataError& error) {
      return error.what();
    }
  }
};

TEST_F(SealedFolderTest, IsWholeAfterItsSeal) {
  write();
  const SealedManifest manifest = check_sealed_folder(folder);
  EXPECT_EQ(manifest.save_id, "a1");
  EXPECT_EQ(manifest.files.size(), 2u);
  EXPECT_EQ(manifest.files.at("weights.bin").bytes, 3000);
  EXPECT_TRUE(is_sealed(folder));
}

TEST_F(SealedFolderTest, LeavesNothingWithoutASeal) {  // report:B36
  {
    SealedFolderWriter writer(folder, "a1");
    write_text_file(writer.path() / "weights.bin", "half");
  }
  EXPECT_TRUE(fs::is_empty(parent));
  EXPECT_FALSE(is_sealed(folder));
}

TEST_F(SealedFolderTest, TakesANameRelativeToTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(parent);
  {
    SealedFolderWriter writer("here", "a1");
    write_text_file(writer.path() / "weights.bin", "w");
    writer.seal();
  }
  fs::current_path(before);
  EXPECT_NO_THROW(check_sealed_folder(parent / "here"));
}

TEST_F(SealedFolderTest, NeverOverwritesAnotherFolder) {
  write();
  EXPECT_THROW(SealedFolderWriter(folder, "a2"), IoError);
  EXPECT_EQ(refusal(), "");
}

TEST_F(SealedFolderTest, RefusesEverySingleBitFlip) {  // fault:A6
  write();
  const RandomStream random(3, 1);
  uint64_t draw = 0;
  for (const char* const name : {"weights.bin", "state.json", "manifest.json", "COMPLETE"}) {
    const std::string original = read_text_file(folder / name, 1 << 20);
    for (int round = 0; round < 60; ++round) {
      std::string damaged = original;
      const uint64_t bit = random.below(draw++, original.size() * 8);
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      std::ofstream(folder / name, std::ios::binary) << damaged;
      const std::string message = refusal();
      EXPECT_NE(message, "") << name << " bit " << bit;
      if (std::string(name).ends_with("bin")) {
        EXPECT_NE(message.find(name), std::string::npos) << message;
      }
    }
    std::ofstream(folder / name, std::ios::binary) << original;
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(SealedFolderTest, NamesTruncatedMissingEmptyAndForeignFiles) {  // fault:A7
  write();
  for (const uintmax_t size : {uintmax_t{0}, uintmax_t{1}, uintmax_t{2999}}) {
    fs::resize_file(folder / "weights.bin", size);
    EXPECT_NE(refusal().find("weights.bin"), std::string::npos);
  }
  fs::remove(folder / "weights.bin");
  EXPECT_NE(refusal().find("weights.bin"), std::string::npos);
  fs::remove_all(folder);
  write();
  write_text_file(folder / "extra.bin", "x");
  EXPECT_NE(refusal().find("extra.bin"), std::string::npos);
}

TEST_F(SealedFolderTest, RefusesFilesOfAnotherSave) {  // fault:A8
  write("a1");
  const fs::path other = parent / "step-8";
  {
    SealedFolderWriter writer(other, "b2");
    write_text_file(writer.path() / "weights.bin", std::string(3000, 'v'));
    write_text_file(writer.path() / "state.json", "{\"step\": 8}");
    writer.seal();
  }
  fs::copy_file(other / "weights.bin", folder / "weights.bin", fs::copy_options::overwrite_existing);
  EXPECT_NE(refusal().find("another save"), std::string::npos);
}

TEST_F(SealedFolderTest, RefusesLinksAndSpecialFilesWithoutHanging) {  // fault:A14
  write();
  fs::rename(folder / "weights.bin", parent / "elsewhere.bin");
  fs::create_symlink(parent / "elsewhere.bin", folder / "weights.bin");
  EXPECT_NE(refusal().find("weights.bin"), std::string::npos);
  fs::remove(folder / "weights.bin");
  ASSERT_EQ(mkfifo((folder / "weights.bin").c_str(), 0600), 0);
  EXPECT_NE(refusal().find("weights.bin"), std::string::npos);
}

TEST_F(SealedFolderTest, SaysWhenAnotherVersionWroteIt) {  // fault:A15
  write();
  std::string manifest = read_text_file(folder / "manifest.json", 1 << 20);
  manifest.replace(manifest.find("\"format_version\": 1"), 19, "\"format_version\": 2");
  write_text_file(folder / "manifest.json", manifest);
  const std::string marker =
      "litespark sealed folder 1\nmanifest " + hash_bytes(std::as_bytes(std::span(manifest))) + "\n";
  write_text_file(folder / "COMPLETE", marker);
  EXPECT_NE(refusal().find("format_version"), std::string::npos);
}

/// Makes the n-th write, fsync, close or rename fail.
class FailingFileSystem final : public FileSystem {
 public:
  FailingFileSystem(int fail_at, int error) : fail_at_(fail_at), error_(error) {}
  int calls() const { return calls_; }
  bool has_failed() const { return calls_ > fail_at_; }

  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    return fails() ? -1 : FileSystem::write(descriptor, data, bytes);
  }
  int fsync(int descriptor) override { return fails() ? -1 : FileSystem::fsync(descriptor); }
  int rename(const char* from, const char* to) override { return fails() ? -1 : FileSystem::rename(from, to); }

 private:
  bool fails() {
    if (calls_++ != fail_at_) return false;
    errno = error_;
    return true;
  }
  int fail_at_;
  int error_;
  int calls_ = 0;
};

TEST_F(SealedFolderTest, AFailureOfAnyCallLeavesNoHalfFolderAndTheOldOneWhole) {  // fault:A3, fault:A5
  write("a1");
  const fs::path next = parent / "step-8";
  const auto write_next = [&] {
    SealedFolderWriter writer(next, "b2");
    write_text_file(writer.path() / "weights.bin", std::string(3000, 'v'));
    write_text_file(writer.path() / "state.json", "{\"step\": 8}");
    writer.seal();
  };
  int failures = 0;
  for (int n = 0;; ++n) {
    FailingFileSystem failing(n, n % 2 == 0 ? ENOSPC : EIO);
    const ScopedFileSystem scope(failing);
    bool has_thrown = false;
    try {
      write_next();
    } catch (const IoError&) {
      has_thrown = true;
    }
    EXPECT_EQ(has_thrown, failing.has_failed()) << n;
    EXPECT_EQ(refusal(), "");
    if (!failing.has_failed()) break;
    ++failures;
    // The one failure after the rename (fsync of the parent) leaves a whole folder; all others leave none.
    if (fs::exists(next)) {
      EXPECT_NO_THROW(check_sealed_folder(next));
    }
    fs::remove_all(next);
    EXPECT_EQ(std::distance(fs::directory_iterator(parent), {}), 1) << n;
  }
  EXPECT_GE(failures, 10);
}

TEST_F(SealedFolderTest, IsWholeOrAbsentAfterAPowerLossAtAnyCall) {  // fault:A2
  const fs::path next = parent / "step-8";
  int losses = 0;
  bool is_off = true;
  for (int64_t call = 0; is_off; ++call) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      SetUp();
      write("a1");
      test::PowerLossFileSystem disk(call);
      bool has_thrown = false;
      {
        const ScopedFileSystem scope(disk);
        try {
          SealedFolderWriter writer(next, "b2");
          write_text_file(writer.path() / "weights.bin", std::string(3000, 'v'));
          write_text_file(writer.path() / "state.json", "{\"step\": 8}");
          writer.seal();
        } catch (const IoError&) {
          has_thrown = true;
        }
      }
      is_off = disk.is_off();
      EXPECT_EQ(has_thrown, is_off) << call;
      disk.lose(seed);
      losses += is_off ? 1 : 0;
      EXPECT_EQ(refusal(), "") << call << " " << seed;
      if (is_sealed(next) || !is_off) {
        EXPECT_NO_THROW(check_sealed_folder(next)) << call << " " << seed;
      }
    }
  }
  EXPECT_GT(losses, 8 * 20);
}

TEST_F(SealedFolderTest, OneFileCanBeHeldAgainstTheSealAlone) {  // fault:A6
  write();
  const SealedManifest manifest = check_seal(folder);
  EXPECT_EQ(read_sealed_text(folder, manifest, "state.json", 100), "{\"step\": 7}");
  EXPECT_NO_THROW(check_sealed_file(folder, manifest, "weights.bin"));
  std::ofstream(folder / "weights.bin") << std::string(2999, 'w') + "v";
  std::ofstream(folder / "state.json") << "{\"step\": 8}";
  EXPECT_NO_THROW(check_seal(folder));  // sizes are as they were
  EXPECT_THROW(check_sealed_file(folder, manifest, "weights.bin"), DataError);
  EXPECT_THROW(read_sealed_text(folder, manifest, "state.json", 100), DataError);
  EXPECT_THROW(check_sealed_file(folder, manifest, "other.bin"), DataError);
  std::ofstream(folder / "state.json") << "{}";
  EXPECT_THROW(check_seal(folder), DataError);
}

TEST_F(SealedFolderTest, RemovesWhatInterruptedWritersLeft) {
  fs::create_directories(parent / ".partial-step-9-aa");
  write_text_file(parent / ".partial-step-9-aa" / "weights.bin", "half");
  write();
  EXPECT_EQ(remove_partial_folders(parent), 1);
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(remove_partial_folders(parent / "absent"), 0);
}

}  // namespace
}  // namespace litespark
