// SPDX-License-Identifier: Apache-2.0
// Filling the same device memory from the host again and again, each time while ops still read what it held before.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace litespark {

class Backend;

class StagedUpload {
 public:
  /// Bytes of the host and where they go within the destination.
  struct Part {
    int64_t offset_bytes = 0;
    const void* source = nullptr;
    int64_t bytes = 0;
  };

  virtual ~StagedUpload() = default;
  /// Fills the destination, ordered with the ops around it; returns when the sources may be reused. Does not wait for
  /// the ops that were issued since the call before the last.
  virtual void fill(std::span<const Part> parts) = 0;
};

/// For devices that need no staging: the parts are copied to `destination`.
std::unique_ptr<StagedUpload> make_direct_upload(Backend& backend, void* destination);

}  // namespace litespark
