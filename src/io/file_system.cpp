// SPDX-License-Identifier: Apache-2.0
// The operating system behind FileSystem: plain calls, restarted after a signal.
#include "io/file_system.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

namespace litespark {
namespace {

template <class Call>
auto restarted(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

FileSystem& operating_system() {
  static FileSystem instance;
  return instance;
}

std::atomic<FileSystem*>& current() {
  static std::atomic<FileSystem*> pointer{&operating_system()};
  return pointer;
}

}  // namespace

int FileSystem::open(const char* path, int flags, unsigned mode) {
  return restarted([&] { return ::open(path, flags | O_CLOEXEC, static_cast<mode_t>(mode)); });
}

ssize_t FileSystem::pread(int descriptor, void* out, size_t bytes, off_t offset) {
  return restarted([&] { return ::pread(descriptor, out, bytes, offset); });
}

ssize_t FileSystem::write(int descriptor, const void* data, size_t bytes) {
  return restarted([&] { return ::write(descriptor, data, bytes); });
}

int FileSystem::fsync(int descriptor) {
  return restarted([&] { return ::fsync(descriptor); });
}

int FileSystem::close(int descriptor) {
  // Linux has released the descriptor even when a signal came between: a second close could hit another file's.
  const int result = ::close(descriptor);
  return result != 0 && errno == EINTR ? 0 : result;
}

int FileSystem::rename(const char* from, const char* to) {
  return restarted([&] { return std::rename(from, to); });
}

int FileSystem::unlink(const char* path) {
  return restarted([&] { return ::unlink(path); });
}

int64_t FileSystem::free_bytes(const char* path) {
  struct statvfs status {};
  if (::statvfs(path, &status) != 0) return -1;
  return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
}

FileSystem& file_system() {
  return *current().load();
}

ScopedFileSystem::ScopedFileSystem(FileSystem& replacement) : previous_(current().exchange(&replacement)) {}

ScopedFileSystem::~ScopedFileSystem() {
  current().store(previous_);
}

}  // namespace litespark
