// SPDX-License-Identifier: Apache-2.0
// Activations that spend the time between forward and backward in host memory: copies that run beside the ops around
// them, and the point at which they must be done.
#pragma once

#include <string_view>

namespace litespark::op {

/// host = device, any dtype, equal shapes. Starts when the ops before it are done and runs beside those after it: until
/// the OffloadWait of the same ticket, `device` may only be read and `host` must not be touched.
template <class T>
struct OffloadStore {
  static constexpr std::string_view kName = "offload_store";
  T host, device;
  int ticket = 0;  ///< tells the copies under way apart

  template <class F>
  auto map(F&& f) const {
    return OffloadStore<decltype(f.in("device", device))>{
        .host = f.out("host", host), .device = f.in("device", device), .ticket = ticket};
  }
};

/// device = host, as OffloadStore: until the OffloadWait `host` may only be read and `device` must not be touched.
template <class T>
struct OffloadFetch {
  static constexpr std::string_view kName = "offload_fetch";
  T device, host;
  int ticket = 0;

  template <class F>
  auto map(F&& f) const {
    return OffloadFetch<decltype(f.in("host", host))>{
        .device = f.out("device", device), .host = f.in("host", host), .ticket = ticket};
  }
};

/// The ops after it run when the last copy of `ticket` is done. Names the device side of that copy, which lives until
/// here.
template <class T>
struct OffloadWait {
  static constexpr std::string_view kName = "offload_wait";
  T device;
  int ticket = 0;

  template <class F>
  auto map(F&& f) const {
    return OffloadWait<decltype(f.inout("device", device))>{.device = f.inout("device", device), .ticket = ticket};
  }
};

}  // namespace litespark::op
