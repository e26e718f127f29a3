// SPDX-License-Identifier: Apache-2.0
#include "io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "core/error.h"

namespace litespark {
namespace {

/// For reading where writing is not allowed: flock asks for no right to write.
int open_lock_file(const std::string& path) {
  const int writable = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (writable >= 0 || (errno != EROFS && errno != EACCES)) return writable;
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/// What the holder wrote; "unknown" when it had no time or no right to write.
std::string holder_of(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t count = pread(descriptor, text.data(), text.size(), 0);
  std::string holder(text.data(), count > 0 ? static_cast<size_t>(count) : 0);
  holder.resize(std::min(holder.find_first_not_of("0123456789"), holder.size()));
  return holder.empty() ? "unknown" : holder;
}

/// Only a name for messages: failing to write it changes nothing.
void write_holder(int descriptor) {
  const std::string text = std::to_string(getpid()) + "\n";
  if (ftruncate(descriptor, 0) != 0) return;
  const ssize_t written = pwrite(descriptor, text.data(), text.size(), 0);
  (void)written;
}

bool knows_no_locks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::string path = (folder / kLockFile).string();
  descriptor_ = open_lock_file(path);
  if (descriptor_ < 0) {
    if (errno == ELOOP) throw IoError(path, "cannot be locked", "a symbolic link", "a regular file or nothing");
    throw IoError(path, "cannot be opened to lock the folder: " + std::generic_category().message(errno));
  }
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    is_held_ = true;
    write_holder(descriptor_);
    return;
  }
  const int error = errno;
  if (knows_no_locks(error)) return;
  const std::string holder = holder_of(descriptor_);
  close(descriptor_);
  if (error != EWOULDBLOCK) throw IoError(path, "cannot be locked: " + std::generic_category().message(error));
  throw ConfigError(folder.string(), "another process writes into this folder", "process " + holder, "one at a time",
                    "wait for it, stop it, or choose another folder");
}

FolderLock::~FolderLock() {
  close(descriptor_);
}

}  // namespace litespark
