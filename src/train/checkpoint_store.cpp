// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_store.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "core/error.h"
#include "io/file.h"
#include "io/file_system.h"
#include "io/sealed_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr const char* kLatest = "latest";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* const begin = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc{} || stop != end || step < 0) return std::nullopt;
  return step;
}

/// A step folder loses its marker first: a crash in between leaves an incomplete folder, not a damaged sealed one.
void remove_checkpoint(const fs::path& path) {
  if (file_system().unlink((path / kCompleteMarker).c_str()) != 0) {
    throw IoError(path.string(), "an old checkpoint cannot be removed");
  }
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw IoError(path.string(), "an old checkpoint cannot be removed: " + error.message());
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw IoError(folder_.string(), "cannot be made: " + error.message());
  if (!fs::is_directory(folder_, error)) throw DataError(folder_.string(), "is not a folder");
}

fs::path CheckpointStore::path_of(int64_t step) const {
  return folder_ / (std::string(kPrefix) + std::to_string(step));
}

std::filesystem::directory_iterator CheckpointStore::entries() const {
  std::error_code error;
  fs::directory_iterator all(folder_, error);
  if (error) throw IoError(folder_.string(), "cannot be listed: " + error.message());
  return all;
}

std::vector<int64_t> CheckpointStore::steps() const {
  std::vector<int64_t> steps;
  for (const fs::directory_entry& entry : entries()) {
    const auto step = step_of(entry.path().filename().string());
    if (step && entry.symlink_status().type() == fs::file_type::directory && is_sealed(entry.path())) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<int64_t> CheckpointStore::newest() const {
  const std::vector<int64_t> all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

std::vector<std::string> CheckpointStore::incomplete() const {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : entries()) {
    const std::string name = entry.path().filename().string();
    if (step_of(name) && !is_sealed(entry.path())) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> CheckpointStore::clean() {
  remove_partial_folders(folder_);
  const int64_t newest_step = newest().value_or(-1);
  std::vector<std::string> set_aside;
  for (const std::string& name : incomplete()) {
    std::error_code error;
    if (step_of(name) > newest_step) {
      fs::rename(folder_ / name, folder_ / ("incomplete-" + name), error);
      set_aside.push_back(name);
    } else {
      fs::remove_all(folder_ / name, error);
    }
    if (error) {
      throw IoError((folder_ / name).string(), "an incomplete checkpoint cannot be cleared away: " + error.message());
    }
  }
  return set_aside;
}

void CheckpointStore::set_latest(int64_t step) {
  write_text_file(folder_ / kLatest, path_of(step).filename().string() + "\n");
}

std::vector<int64_t> CheckpointStore::prune(const RetentionPolicy& policy) {
  const std::vector<int64_t> all = steps();
  const auto kept_last = static_cast<size_t>(std::max<int64_t>(policy.keep_last, 1));
  if (all.size() <= kept_last) return {};
  check_sealed_folder(path_of(all.back()));
  std::vector<int64_t> removed;
  for (size_t i = 0; i + kept_last < all.size(); ++i) {
    if (policy.keep_every > 0 && all[i] % policy.keep_every == 0) continue;
    remove_checkpoint(path_of(all[i]));
    removed.push_back(all[i]);
  }
  return removed;
}

void CheckpointStore::require_space(int64_t bytes) const {
  const int64_t free = free_bytes(folder_);
  if (free >= bytes) return;
  throw IoError(folder_.string(), "not enough space for the next checkpoint", std::to_string(free) + " bytes free",
                std::to_string(bytes) + " bytes", "free some space, keep fewer checkpoints, or move `out`");
}

}  // namespace litespark
