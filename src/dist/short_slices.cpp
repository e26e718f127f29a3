// SPDX-License-Identifier: Apache-2.0
#include "dist/short_slices.h"

#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

namespace litespark::dist {
namespace {

/// The least that the kernel grants.
constexpr uint64_t kSliceNanoseconds = 100'000;

/// The kernel's struct sched_attr in its first form, which C libraries declare or not.
struct Attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_nanoseconds;  ///< of SCHED_NORMAL and SCHED_BATCH the slice
  uint64_t deadline, period;
};

/// Of the calling thread.
std::optional<Attributes> attributes() {
  Attributes found = {};
  if (syscall(SYS_sched_getattr, 0, &found, sizeof(found), 0) != 0) return std::nullopt;
  return found;
}

bool set_slice(Attributes wanted, uint64_t nanoseconds) {
  wanted.runtime_nanoseconds = nanoseconds;
  return syscall(SYS_sched_setattr, 0, &wanted, 0) == 0;
}

}  // namespace

ShortSlices::ShortSlices() {
  const std::optional<Attributes> now = attributes();
  if (!now || (now->policy != SCHED_NORMAL && now->policy != SCHED_BATCH)) return;
  before_nanoseconds_ = now->runtime_nanoseconds;
  was_set_ = set_slice(*now, kSliceNanoseconds);
}

ShortSlices::~ShortSlices() {
  if (!was_set_) return;
  if (const std::optional<Attributes> now = attributes()) set_slice(*now, before_nanoseconds_);
}

}  // namespace litespark::dist
