// SPDX-License-Identifier: Apache-2.0
// The checkpoints of one run: which are whole, which is newest, which may go. Never deletes a checkpoint before a newer
// one has been read back and found whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace litespark {

struct RetentionPolicy {
  int64_t keep_last = 2;   ///< newest ones kept; at least 1
  int64_t keep_every = 0;  ///< steps divisible by this are kept for ever; 0: none
};

class CheckpointStore {
 public:
  /// `folder` is the run's checkpoints/; made when absent. Throws IoError, DataError when it is not a folder.
  explicit CheckpointStore(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path_of(int64_t step) const;
  /// Steps of the sealed checkpoints, ascending. Other entries are ignored.
  std::vector<int64_t> steps() const;
  /// The newest sealed step; nullopt without any.
  std::optional<int64_t> newest() const;
  /// Names of step folders without a marker: leftovers that a resume must not trust.
  std::vector<std::string> incomplete() const;

  /// Removes what interrupted saves and deletions left. A step folder without a marker that is newer than every whole
  /// one comes from neither: it is set aside as "incomplete-step-N", so that nobody's only checkpoint is lost. Returns
  /// the names that were set aside. Call it once, before the run writes.
  std::vector<std::string> clean();
  /// Points "latest" at a step, atomically.
  void set_latest(int64_t step);
  /// Deletes what the policy does not keep, after the newest has been checked; returns the deleted steps. DataError
  /// from the check deletes nothing.
  std::vector<int64_t> prune(const RetentionPolicy& policy);
  /// Throws IoError naming both numbers when fewer than `bytes` are free.
  void require_space(int64_t bytes) const;

 private:
  std::filesystem::directory_iterator entries() const;

  std::filesystem::path folder_;
};

}  // namespace litespark
