// SPDX-License-Identifier: Apache-2.0
// Threads that wait for the network and then have little to do: they ask the scheduler for short slices, for which it
// interrupts a thread that computes on the same core, rather than let them wait until that one's slice has ended.
#pragma once

#include <cstdint>

namespace litespark::dist {

/// While it lives the calling thread, and whatever threads it starts, have short slices. Does nothing where the kernel
/// (before Linux 6.12) or the thread's own scheduling class knows none.
class ShortSlices {
 public:
  ShortSlices();
  ~ShortSlices();
  ShortSlices(const ShortSlices&) = delete;
  ShortSlices& operator=(const ShortSlices&) = delete;

 private:
  uint64_t before_nanoseconds_ = 0;
  bool was_set_ = false;
};

}  // namespace litespark::dist
