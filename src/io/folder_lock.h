// SPDX-License-Identifier: Apache-2.0
// One writer a folder: an advisory lock (flock) on a file in it, held as long as this object lives. The system itself
// lets go when the process ends, however it ends, so a kill leaves nothing to clean up.
#pragma once

#include <filesystem>
#include <string>

namespace litespark {

class FolderLock {
 public:
  /// Locks `folder`/.lock, which is made when absent and stays. Throws ConfigError naming the folder and the process
  /// that holds it, IoError when the file can neither be made nor opened.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False where the file system knows no locks (some network mounts): then nothing keeps a second process out.
  bool is_held() const { return is_held_; }

 private:
  int descriptor_ = -1;
  bool is_held_ = false;
};

/// Name of the locked file; it holds the number of the process that last took the lock.
inline constexpr const char* kLockFile = ".lock";

}  // namespace litespark
