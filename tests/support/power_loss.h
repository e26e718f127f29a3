// SPDX-License-Identifier: Apache-2.0
// A file system whose power goes before its n-th call: afterwards only what an fsync made durable is sure to be there.
// Content that was not synced is cut; names that were made, moved or removed in a folder that was not synced are there
// or not, each folder by the seed, whatever order the calls had.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/file_system.h"

namespace litespark::test {

/// Counts opens for writing, writes, fsyncs, renames and unlinks. Folders made without it count as durable.
class PowerLossFileSystem final : public FileSystem {
 public:
  explicit PowerLossFileSystem(int64_t at_call) : at_call_(at_call) {}

  bool is_off() const { return calls_ > at_call_; }
  /// Turns the disk into what the machine finds when it comes back. Seed 0 keeps every name, 1 none that was not
  /// synced.
  void lose(uint64_t seed);

  int open(const char* path, int flags, unsigned mode) override;
  ssize_t write(int descriptor, const void* data, size_t bytes) override;
  int fsync(int descriptor) override;
  int close(int descriptor) override;
  int rename(const char* from, const char* to) override;
  int unlink(const char* path) override;

 private:
  enum class Kind : uint8_t { kMade, kMoved, kRemoved };
  /// A change of names that its folder's fsync has not covered yet.
  struct NameChange {
    Kind kind;
    std::string path;         ///< the name afterwards; of kRemoved: before
    std::string before = {};  ///< of kMoved
    bool had_content = false;
    std::string content = {};  ///< of the file that stood there before
  };

  bool refuses();
  void undo(const NameChange& change, const std::string& path, const std::string& before) const;

  int64_t at_call_;
  int64_t calls_ = 0;
  std::map<int, std::string> open_;
  std::map<std::string, std::string> unsynced_;  ///< path -> content that is durable
  std::vector<NameChange> changes_;
};

}  // namespace litespark::test
