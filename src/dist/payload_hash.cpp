// SPDX-License-Identifier: Apache-2.0
#include "dist/payload_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dist/link.h"

namespace litespark::dist {

uint64_t payload_hash(const Message& message) {
  return XXH3_64bits(message.data, static_cast<size_t>(message.bytes));
}

void require_undamaged(const Message& received, const CallLabel& label) {
  if (payload_hash(received) == label.payload_hash) return;
  throw LinkFailure("what rank " + std::to_string(received.rank) + " sent came damaged: " + label.text());
}

CallLabel SealedLabels::seal(const Message& message) {
  if (!has_hash_ || message.data != data_ || message.bytes != bytes_) {
    has_hash_ = true;
    data_ = message.data;
    bytes_ = message.bytes;
    hash_ = payload_hash(message);
  }
  CallLabel label = message.label;
  label.payload_hash = hash_;
  return label;
}

}  // namespace litespark::dist
