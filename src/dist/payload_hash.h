// SPDX-License-Identifier: Apache-2.0
// Whether the bytes of a message are those that were sent: TCP's own sum of 16 bits misses one damaged packet in
// 65,536, and memory on the way has none.
#pragma once

#include <cstdint>

#include "dist/ordered_collectives.h"

namespace litespark::dist {

/// XXH3 of a message's bytes.
uint64_t payload_hash(const Message& message);

/// Throws LinkFailure that names the sender unless the message's bytes are those that `label` came with.
void require_undamaged(const Message& received, const CallLabel& label);

/// The labels under which messages travel, each with the hash of its bytes: made once for bytes that go to several
/// ranks one after another.
class SealedLabels {
 public:
  CallLabel seal(const Message& message);

 private:
  bool has_hash_ = false;
  const void* data_ = nullptr;
  int64_t bytes_ = 0;
  uint64_t hash_ = 0;
};

}  // namespace litespark::dist
