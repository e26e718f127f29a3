// SPDX-License-Identifier: Apache-2.0
// A message is held against what its sender said of its bytes.
#include <gtest/gtest.h>

#include <vector>

#include "dist/link.h"
#include "dist/payload_hash.h"
#include "support/error_text.h"

namespace litespark::dist {
namespace {

Message message_of(std::vector<std::byte>& bytes, int rank) {
  Message message{.rank = rank, .data = bytes.data(), .bytes = std::ssize(bytes), .label = {}};
  message.label.kind = CallKind::kAllGather;
  message.label.step = 7;
  return message;
}

TEST(PayloadHash, OneTurnedBitAnywhereIsFoundAndItsSenderNamed) {
  for (const size_t size : {1U, 8U, 240U, 5000U}) {
    std::vector<std::byte> bytes(size, std::byte{42});
    const CallLabel label = SealedLabels().seal(message_of(bytes, 2));
    require_undamaged(message_of(bytes, 2), label);
    for (size_t at = 0; at < size; at += 1 + size / 50) {
      bytes[at] ^= std::byte{16};
      const std::string text = error_text<LinkFailure>([&] { require_undamaged(message_of(bytes, 2), label); });
      EXPECT_TRUE(contains(text, "what rank 2 sent came damaged: all_gather"));
      EXPECT_TRUE(contains(text, "step 7"));
      bytes[at] ^= std::byte{16};
    }
  }
}

TEST(PayloadHash, EachOfSeveralMessagesIsSealedByItsOwnBytes) {
  std::vector<std::byte> first(64, std::byte{1});
  std::vector<std::byte> second(64, std::byte{2});
  SealedLabels labels;
  const uint64_t hash = labels.seal(message_of(first, 0)).payload_hash;
  EXPECT_EQ(labels.seal(message_of(first, 1)).payload_hash, hash);
  EXPECT_NE(labels.seal(message_of(second, 1)).payload_hash, hash);
  EXPECT_EQ(labels.seal(message_of(first, 2)).payload_hash, hash);
  Message half = message_of(first, 2);
  half.bytes = 32;
  EXPECT_NE(labels.seal(half).payload_hash, hash);
}

TEST(PayloadHash, AMessageWithoutBytesIsSealedToo) {
  std::vector<std::byte> none;
  const CallLabel label = SealedLabels().seal(message_of(none, 1));
  require_undamaged(message_of(none, 1), label);
}

TEST(PayloadHash, CallsAreTheSameWhateverTheirBytes) {
  std::vector<std::byte> first(64, std::byte{1});
  std::vector<std::byte> second(64, std::byte{2});
  EXPECT_TRUE(SealedLabels().seal(message_of(first, 0)).is_same_call(SealedLabels().seal(message_of(second, 0))));
}

}  // namespace
}  // namespace litespark::dist
