// SPDX-License-Identifier: Apache-2.0
// A read of device memory that is started at one place and collected at another: the host issues the next step before
// it looks at the outcome of this one.
#pragma once

#include <cstdint>
#include <memory>

namespace litespark {

class Backend;

/// Made once for a number of bytes and used again and again; nothing is allocated after that.
class AsyncRead {
 public:
  virtual ~AsyncRead() = default;
  /// Starts the copy, ordered with the ops and copies around it, and returns at once. Must not be called before the
  /// bytes of an earlier start have been collected or given up.
  virtual void start(const void* source) = 0;
  /// Whether wait() would return at once. Throws DeviceError when the work before the copy failed.
  virtual bool is_done() = 0;
  /// The bytes, valid until the next start. Throws DeviceError when the work before the copy failed.
  virtual const void* wait() = 0;
  /// Seconds between the moments at which the device came to the two copies; both are done. Pauses of the device count.
  virtual double seconds_since(const AsyncRead& earlier) const = 0;
};

/// For devices that have done everything when an op returns: `start` copies, the host's clock tells the time.
std::unique_ptr<AsyncRead> make_immediate_read(Backend& backend, int64_t bytes);

}  // namespace litespark
