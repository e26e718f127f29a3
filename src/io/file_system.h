// SPDX-License-Identifier: Apache-2.0
// The system calls through which io/ touches files, as one interface: a test replaces it to make the n-th write, fsync
// or rename fail, or to stop the world there.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace litespark {

/// Every member behaves as the POSIX call of its name: -1 (or a short count) and errno on failure.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const char* path, int flags, unsigned mode);
  virtual ssize_t pread(int descriptor, void* out, size_t bytes, off_t offset);
  virtual ssize_t write(int descriptor, const void* data, size_t bytes);
  virtual int fsync(int descriptor);
  virtual int close(int descriptor);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
  /// Bytes that an unprivileged process may still write below `path`; -1 and errno on failure.
  virtual int64_t free_bytes(const char* path);
};

/// The interface in use: the operating system, unless a test has replaced it.
FileSystem& file_system();

/// Replaces file_system() for the lifetime of this object; for tests, one at a time.
class ScopedFileSystem {
 public:
  explicit ScopedFileSystem(FileSystem& replacement);
  ~ScopedFileSystem();
  ScopedFileSystem(const ScopedFileSystem&) = delete;
  ScopedFileSystem& operator=(const ScopedFileSystem&) = delete;

 private:
  FileSystem* previous_;
};

}  // namespace litespark
