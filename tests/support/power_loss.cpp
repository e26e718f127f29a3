// SPDX-License-Identifier: Apache-2.0
#include "support/power_loss.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/rng.h"
#include "support/temporary_folder.h"

namespace litespark::test {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

/// `path`, which lay at or below `from`, after `from` became `to`.
std::string moved(const std::string& path, const std::string& from, const std::string& to) {
  const bool is_below = path == from || path.starts_with(from + "/");
  return is_below ? to + path.substr(from.size()) : path;
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

bool is_kept(const std::string& folder, uint64_t seed) {
  if (seed < 2) return seed == 0;
  return RandomStream(seed, std::hash<std::string>{}(folder)).below(0, 2) == 0;
}

}  // namespace

bool PowerLossFileSystem::refuses() {
  if (calls_ <= at_call_) ++calls_;
  if (!is_off()) return false;
  errno = EIO;
  return true;
}

int PowerLossFileSystem::open(const char* path, int flags, unsigned mode) {
  const bool is_writing = (flags & O_ACCMODE) != O_RDONLY;
  if (is_writing && refuses()) return -1;
  const bool was_there = fs::exists(path);
  const std::string content = is_writing && was_there ? file_text(path) : "";
  const int descriptor = FileSystem::open(path, flags, mode);
  if (descriptor < 0) return descriptor;
  open_[descriptor] = path;
  if (is_writing) unsynced_.try_emplace(path, content);
  if (is_writing && !was_there) changes_.push_back({.kind = Kind::kMade, .path = path});
  return descriptor;
}

ssize_t PowerLossFileSystem::write(int descriptor, const void* data, size_t bytes) {
  return refuses() ? -1 : FileSystem::write(descriptor, data, bytes);
}

int PowerLossFileSystem::fsync(int descriptor) {
  if (refuses()) return -1;
  const std::string path = open_.at(descriptor);
  unsynced_.erase(path);
  std::erase_if(changes_, [&](const NameChange& change) { return folder_of(change.path) == path; });
  return FileSystem::fsync(descriptor);
}

int PowerLossFileSystem::close(int descriptor) {
  open_.erase(descriptor);
  return FileSystem::close(descriptor);
}

int PowerLossFileSystem::rename(const char* from, const char* to) {
  if (refuses()) return -1;
  NameChange change{.kind = Kind::kMoved, .path = to, .before = from, .had_content = fs::is_regular_file(to)};
  if (change.had_content) change.content = file_text(to);
  if (FileSystem::rename(from, to) != 0) return -1;
  changes_.push_back(std::move(change));
  std::map<std::string, std::string> renamed;
  for (const auto& [path, content] : unsynced_) renamed[moved(path, from, to)] = content;
  unsynced_ = std::move(renamed);
  return 0;
}

int PowerLossFileSystem::unlink(const char* path) {
  if (refuses()) return -1;
  changes_.push_back({.kind = Kind::kRemoved, .path = path, .had_content = true, .content = file_text(path)});
  unsynced_.erase(path);
  return FileSystem::unlink(path);
}

void PowerLossFileSystem::undo(const NameChange& change, const std::string& path, const std::string& before) const {
  std::error_code gone;  // the writer's own clearing up may have been there first
  if (change.kind == Kind::kMade) fs::remove(path, gone);
  if (change.kind == Kind::kMoved) fs::rename(path, before, gone);
  if (change.had_content) write_file(path, change.content);
}

void PowerLossFileSystem::lose(uint64_t seed) {
  calls_ = at_call_ + 1;
  for (const auto& [path, durable] : unsynced_) {
    if (fs::exists(path)) write_file(path, seed % 2 == 0 ? "" : durable + "torn");
  }
  std::vector<std::pair<std::string, std::string>> kept_moves;
  const auto place_now = [&](std::string path) {
    for (auto move = kept_moves.rbegin(); move != kept_moves.rend(); ++move)
      path = moved(path, move->first, move->second);
    return path;
  };
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    if (!is_kept(folder_of(change->path), seed)) {
      undo(*change, place_now(change->path), place_now(change->before));
    } else if (change->kind == Kind::kMoved) {
      kept_moves.emplace_back(change->before, change->path);
    }
  }
}

}  // namespace litespark::test
