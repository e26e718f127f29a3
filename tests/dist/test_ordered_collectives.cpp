// SPDX-License-Identifier: Apache-2.0
// What a call sends, counted; that it is right is the conformance cases' matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "dist/ordered_collectives.h"

namespace litespark::dist {
namespace {

/// Counts what one rank of four sends, and gives zeros.
struct CountingEngine final : CollectiveEngine {
  int rank() const override { return 1; }
  int size() const override { return 4; }
  void transfer(std::span<const Message> sent, std::span<const Message> received) override {
    ++num_transfers;
    for (const Message& message : sent) sent_bytes += message.bytes;
    for (const Message& message : received) {
      if (message.bytes > 0) std::memset(message.data, 0, static_cast<size_t>(message.bytes));
    }
  }
  std::byte* inbox(int64_t bytes) override {
    largest_inbox = std::max(largest_inbox, bytes);
    memory.resize(static_cast<size_t>(bytes));
    return memory.data();
  }
  void reduce(void*, const void*, int64_t num_elements, DType, Reduction) override { num_reduced += num_elements; }
  void copy(void*, const void*, int64_t) override {}

  int num_transfers = 0;
  int64_t sent_bytes = 0;
  int64_t num_reduced = 0;
  int64_t largest_inbox = 0;
  std::vector<std::byte> memory;
};

Tensor floats(std::vector<float>& memory) {
  return {.data = memory.data(),
          .dtype = DType::kF32,
          .shape = {static_cast<int64_t>(memory.size())},
          .device = Device::kCpu};
}

TEST(OrderedCollectives, AllReduceSendsWhatAReduceScatterAndAGatherDo) {
  CountingEngine engine;
  OrderedCollectives collectives(engine, {.inbox_bytes = 1 << 12, .direct_bytes = 0});
  std::vector<float> data(4000);
  collectives.run({.kind = CallKind::kAllReduce, .data = floats(data)});
  EXPECT_EQ(engine.sent_bytes, 2 * 4000 * 4 * 3 / 4);
  EXPECT_EQ(engine.num_transfers, 2 * 4);
  EXPECT_EQ(engine.num_reduced, 1000);
  EXPECT_LE(engine.largest_inbox, 1 << 12);
}

TEST(OrderedCollectives, AShortAllReduceTakesOneStep) {
  CountingEngine engine;
  OrderedCollectives collectives(engine, {});
  std::vector<float> data(100);
  collectives.run({.kind = CallKind::kAllReduce, .data = floats(data)});
  EXPECT_EQ(engine.num_transfers, 1);
}

TEST(OrderedCollectives, ReduceScatterSendsEachOtherRankItsPieceOnce) {
  CountingEngine engine;
  OrderedCollectives collectives(engine, {.inbox_bytes = 1 << 12});
  std::vector<float> data(4000);
  std::vector<float> shard(1000);
  collectives.run({.kind = CallKind::kReduceScatter, .data = floats(data), .piece = floats(shard)});
  EXPECT_EQ(engine.sent_bytes, 3 * 1000 * 4);
  EXPECT_LE(engine.largest_inbox, 1 << 12);
}

TEST(OrderedCollectives, ARankOfABroadcastSendsToAtMostOneMoreEachRound) {
  CountingEngine engine;
  OrderedCollectives collectives(engine, {});
  std::vector<float> data(10);
  collectives.run({.kind = CallKind::kBroadcast, .data = floats(data), .root = 1});
  EXPECT_EQ(engine.num_transfers, 2);
  EXPECT_EQ(engine.sent_bytes, 2 * 40);
}

}  // namespace
}  // namespace litespark::dist
