// SPDX-License-Identifier: Apache-2.0
// Watches a run's memory from its steady state on: what stands beyond the plan, whether anything is still allocated,
// and who grows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "meter/leak_watch.h"
#include "ops/backend.h"

namespace litespark {

class MemoryWatch {
 public:
  /// The first step loads kernels, the second records graphs; after the third everything is there.
  static constexpr int64_t kSteadyStep = 3;
  /// Steps between samples.
  static constexpr int64_t kSampleEvery = 20;

  /// What stood in the device's memory before the first step.
  struct Start {
    Device device = Device::kCpu;
    /// Of the board by the driver's own account, before and after the backend opened it: the context's bytes are the
    /// difference. nullopt on a CPU and where the driver does not say.
    std::optional<int64_t> driver_before_bytes;
    std::optional<int64_t> driver_opened_bytes;
    MemoryUse opened;    ///< with the backend made and nothing allocated
    MemoryUse prepared;  ///< with the plan allocated and every op prepared
    std::function<int64_t()> loader_bytes = [] { return int64_t{0}; };  ///< host memory of the loader's batches
  };

  /// `read` is Backend::memory_use.
  MemoryWatch(Start start, std::function<MemoryUse()> read) : start_(std::move(start)), read_(std::move(read)) {}

  /// After each step; `step` counts over the whole run. Owners that go on growing.
  std::vector<MemoryGrowth> after_step(int64_t step);

  /// True exactly after the step that reached the steady state.
  bool has_just_settled() const { return steps_here_ == kSteadyStep; }
  /// In the steady state, on a GPU: taken since before the backend opened it, less the plan; on a CPU: resident bytes
  /// of the process less the plan. nullopt before, and where the system does not say.
  std::optional<int64_t> beyond_plan_bytes() const;
  /// The moments of `Start` and of the steady state, for a line of the log.
  std::string moments_text() const;
  /// Allocations and flatness since the steady state; "" when the run ended before it.
  std::string text() const;

 private:
  /// Writes owners_.
  void list_owners(const MemoryUse& use);
  std::optional<int64_t> context_bytes() const;

  Start start_;
  std::function<MemoryUse()> read_;
  LeakWatch leaks_;
  std::vector<OwnedBytes> owners_;  ///< keeps its memory from sample to sample
  int64_t steps_here_ = 0;          ///< since this process started
  std::optional<MemoryUse> settled_;
  int64_t lowest_used_bytes_ = 0;
  int64_t highest_used_bytes_ = 0;
  int64_t num_samples_ = 0;
};

}  // namespace litespark
