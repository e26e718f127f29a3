// SPDX-License-Identifier: Apache-2.0
// Reads of device memory beside the ops, for a thread that saves while training goes on.
#pragma once

#include <cstdint>
#include <memory>

namespace litespark {

class Backend;

class SideReader {
 public:
  virtual ~SideReader() = default;
  /// Reads from here on see what the ops and copies issued so far leave. Called by the thread that issues them; does
  /// not wait.
  virtual void follow() = 0;
  /// Returns when `destination` is filled. May be called by another thread; ops run on meanwhile, and must not write
  /// `source`. Throws DeviceError.
  virtual void read(void* destination, const void* source, int64_t bytes) = 0;
};

/// For devices that have done everything when an op returns, and whose copy_to_host any thread may call.
std::unique_ptr<SideReader> make_immediate_side_reader(Backend& backend);

}  // namespace litespark
