// SPDX-License-Identifier: Apache-2.0
#include "scratch_folder.h"

#include <unistd.h>

#include "core/error.h"

namespace litespark::cli {

ScratchFolder::ScratchFolder(const std::filesystem::path& parent, const std::string& purpose)
    : path_(parent / (".litespark-" + purpose + "-" + std::to_string(getpid()))) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) throw IoError(path_.string(), "cannot be made: " + error.message());
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace litespark::cli
