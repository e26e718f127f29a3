// SPDX-License-Identifier: Apache-2.0
// A folder for the files of one command, gone with it, also when a signal ends it.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <thread>

namespace litespark::cli {

class ScratchFolder {
 public:
  /// A folder of this process below `parent`, which is made where it is absent; `purpose` is part of its name. While it
  /// lives, SIGINT, SIGTERM and SIGHUP remove it before they end the process, unless they are ignored. One at a time.
  /// Throws IoError.
  ScratchFolder(const std::filesystem::path& parent, const std::string& purpose);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  void watch();
  void remove() const;

  std::filesystem::path path_;
  std::array<int, 2> pipe_ = {-1, -1};
  std::thread watcher_;
};

}  // namespace litespark::cli
