// SPDX-License-Identifier: Apache-2.0
// A folder for the files of one command, gone with it.
#pragma once

#include <filesystem>
#include <string>

namespace litespark::cli {

class ScratchFolder {
 public:
  /// A folder of this process below `parent`, which is made where it is absent; `purpose` is part of its name. Throws
  /// IoError.
  ScratchFolder(const std::filesystem::path& parent, const std::string& purpose);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace litespark::cli
