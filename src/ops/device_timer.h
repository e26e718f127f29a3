// SPDX-License-Identifier: Apache-2.0
// Moments on a device's own time line. A mark stands in the order of the ops around it, so the time between two marks
// is what the device spent on the work between them, waiting for the host included.
#pragma once

#include <memory>
#include <vector>

namespace litespark {

class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  /// Notes the moment at which everything issued so far is done; returns at once.
  virtual void mark() = 0;
  /// Waits for the last mark; gives the moments in seconds after the first one, in order, and forgets them.
  virtual std::vector<double> take() = 0;
};

/// Marks by the host's monotonic clock: right for a device whose ops are done when Backend::run returns.
std::unique_ptr<DeviceTimer> make_host_timer();

}  // namespace litespark
