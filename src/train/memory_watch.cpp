// SPDX-License-Identifier: Apache-2.0
#include "train/memory_watch.h"

#include <algorithm>

#include "core/text_table.h"
#include "meter/process_memory.h"

namespace litespark {
namespace {

/// How coarsely each owner is known: the driver gives out 2 MiB pieces and loads kernels when they first run; malloc
/// counts to the byte but small objects come and go; pages become resident when they are first touched.
constexpr int64_t kDeviceTolerance = int64_t{8} << 20;
constexpr int64_t kHeapTolerance = int64_t{1} << 20;
constexpr int64_t kLoaderTolerance = int64_t{64} << 10;
constexpr int64_t kPagesTolerance = int64_t{64} << 20;

}  // namespace

void MemoryWatch::list_owners(const MemoryUse& use) {
  const bool is_cpu = start_.device == Device::kCpu;
  owners_.clear();
  owners_.push_back({.owner = "planned memory", .bytes = use.allocated_bytes});
  if (!is_cpu && use.used_bytes) {
    owners_.push_back({.owner = "device memory of driver and libraries",
                       .bytes = *use.used_bytes - use.allocated_bytes,
                       .tolerance_bytes = kDeviceTolerance});
  }
  const int64_t loader = start_.loader_bytes();
  owners_.push_back({.owner = "loader", .bytes = loader, .tolerance_bytes = kLoaderTolerance});
  const std::optional<ProcessMemory> process = process_memory();
  if (process && process->heap_used_bytes && process->heap_free_bytes) {
    const int64_t planned = is_cpu ? use.allocated_bytes : 0;
    owners_.push_back({.owner = "host heap",
                       .bytes = *process->heap_used_bytes - planned - loader,
                       .tolerance_bytes = kHeapTolerance});
    owners_.push_back(
        {.owner = "free heap kept by malloc", .bytes = *process->heap_free_bytes, .tolerance_bytes = kPagesTolerance});
    // Pages of mapped files are left out: they are the page cache's and come and go with the data that is read.
    owners_.push_back({.owner = "private memory outside the heap",
                       .bytes = process->anonymous_bytes - *process->heap_used_bytes - *process->heap_free_bytes,
                       .tolerance_bytes = kPagesTolerance});
  }
}

std::vector<MemoryGrowth> MemoryWatch::after_step(int64_t step) {
  ++steps_here_;
  if (steps_here_ < kSteadyStep || (steps_here_ != kSteadyStep && steps_here_ % kSampleEvery != 0)) return {};
  const MemoryUse now = read_();
  if (!settled_) settled_ = now;
  const int64_t used = now.used_bytes.value_or(0);
  lowest_used_bytes_ = num_samples_ == 0 ? used : std::min(lowest_used_bytes_, used);
  highest_used_bytes_ = std::max(highest_used_bytes_, used);
  ++num_samples_;
  list_owners(now);
  return leaks_.add(step, owners_);
}

std::optional<int64_t> MemoryWatch::context_bytes() const {
  if (!start_.driver_before_bytes || !start_.driver_opened_bytes) return std::nullopt;
  return *start_.driver_opened_bytes - *start_.driver_before_bytes;
}

std::optional<int64_t> MemoryWatch::beyond_plan_bytes() const {
  if (!settled_ || !settled_->used_bytes) return std::nullopt;
  const int64_t beyond = *settled_->used_bytes - settled_->allocated_bytes;
  if (!context_bytes() || !start_.opened.used_bytes) return beyond;
  // What other processes hold of the board is in both readings and drops out.
  return *context_bytes() + beyond - (*start_.opened.used_bytes - start_.opened.allocated_bytes);
}

std::string MemoryWatch::moments_text() const {
  const auto used = [](const MemoryUse& use) { return use.used_bytes ? bytes_text(*use.used_bytes) : "unknown"; };
  std::string text = "memory used: ";
  if (start_.driver_before_bytes) text += bytes_text(*start_.driver_before_bytes) + " before the context, ";
  if (start_.driver_opened_bytes) text += bytes_text(*start_.driver_opened_bytes) + " after it (both the driver's), ";
  text += used(start_.opened) + " with the backend open, " + used(start_.prepared) + " prepared with " +
          bytes_text(start_.prepared.allocated_bytes) + " planned";
  if (settled_) text += ", " + used(*settled_) + " after step " + std::to_string(kSteadyStep);
  return text;
}

std::string MemoryWatch::text() const {
  if (!settled_) return "";
  std::string text = "memory: " + std::to_string(read_().num_allocations - settled_->num_allocations) +
                     " device allocations after step " + std::to_string(kSteadyStep);
  if (settled_->used_bytes) {
    text += "; used memory flat within " + bytes_text(highest_used_bytes_ - lowest_used_bytes_) + " over " +
            std::to_string(num_samples_) + " samples of " + std::to_string(steps_here_) + " steps";
  }
  return text;
}

}  // namespace litespark
