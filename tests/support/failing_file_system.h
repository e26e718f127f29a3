// SPDX-License-Identifier: Apache-2.0
// A file system that fails its n-th call: with an errno, with a short write, or by a crash after which nothing happens.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "io/file_system.h"

namespace litespark::test {

/// Counts opens for writing, writes, fsyncs, closes of written files and renames; each is one point of failure. After a
/// crash every later call fails and changes nothing, unlink included, as if the process were gone: what is on disk then
/// is what a restarted process finds.
class FailingFileSystem final : public FileSystem {
 public:
  enum class Kind : uint8_t { kError, kShortWrite, kCrash };
  struct Failure {
    int64_t at_call = -1;  ///< 0-based; -1: never
    Kind kind = Kind::kError;
    int error = ENOSPC;
    std::string only;  ///< count only calls of this name; empty: all
    int64_t free_bytes = int64_t{1} << 40;
  };

  explicit FailingFileSystem(Failure failure) : failure_(std::move(failure)) {}

  int64_t calls() const { return calls_; }
  bool has_failed() const { return has_failed_; }

  int open(const char* path, int flags, unsigned mode) override {
    const bool is_writing = (flags & O_ACCMODE) != O_RDONLY;
    if (is_writing && fails("open")) return -1;
    const int descriptor = FileSystem::open(path, flags, mode);
    if (is_writing && descriptor >= 0) written_.insert(descriptor);
    return descriptor;
  }
  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    if (fails("write")) {
      const bool was_first = failure_.at_call == calls_ - 1;
      if (!was_first || failure_.kind == Kind::kError) return refuse();
      const ssize_t count = FileSystem::write(descriptor, data, (bytes + 1) / 2);
      return failure_.kind == Kind::kShortWrite ? count : refuse();
    }
    return FileSystem::write(descriptor, data, bytes);
  }
  int fsync(int descriptor) override { return fails("fsync") ? -1 : FileSystem::fsync(descriptor); }
  int close(int descriptor) override {
    const bool is_failing = written_.erase(descriptor) > 0 && fails("close");
    const int result = FileSystem::close(descriptor);
    return is_failing ? -1 : result;
  }
  int rename(const char* from, const char* to) override { return fails("rename") ? -1 : FileSystem::rename(from, to); }
  int unlink(const char* path) override {
    if (is_dead_) return -1;
    return FileSystem::unlink(path);
  }
  int64_t free_bytes(const char*) override { return failure_.free_bytes; }

 private:
  bool fails(const char* call) {
    if (is_dead_) {
      ++calls_;
      errno = EIO;
      return true;
    }
    if (!failure_.only.empty() && failure_.only != call) return false;
    if (calls_++ != failure_.at_call) return false;
    has_failed_ = true;
    is_dead_ = failure_.kind == Kind::kCrash;
    errno = failure_.error;
    return true;
  }
  ssize_t refuse() const {
    errno = failure_.error;
    return -1;
  }

  Failure failure_;
  std::set<int> written_;
  int64_t calls_ = 0;
  bool has_failed_ = false;
  bool is_dead_ = false;
};

}  // namespace litespark::test
