// SPDX-License-Identifier: Apache-2.0
// What a call sends, counted; that it is right is the conformance cases' matter.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "dist/host_collectives.h"

namespace litespark::dist {
namespace {

/// Counts what one rank of four sends, and gives zeros.
struct CountingLink final : Link {
  std::string name() const override { return "counting"; }
  int rank() const override { return 1; }
  int size() const override { return 4; }
  void transfer(std::span<const Message> sent, std::span<const Message> received, Deadline) override {
    ++num_transfers;
    for (const Message& message : sent) sent_bytes += message.bytes;
    for (const Message& message : received) {
      if (message.bytes > 0) std::memset(message.data, 0, static_cast<size_t>(message.bytes));
    }
  }
  void abort(const std::string&) noexcept override {}

  int num_transfers = 0;
  int64_t sent_bytes = 0;
};

Tensor floats(std::vector<float>& memory) {
  return {.data = memory.data(),
          .dtype = DType::kF32,
          .shape = {static_cast<int64_t>(memory.size())},
          .device = Device::kCpu};
}

TEST(HostCollectives, AllReduceSendsWhatAReduceScatterAndAGatherDo) {
  CountingLink link;
  HostCollectives collectives(link, {.inbox_bytes = 1 << 12, .direct_bytes = 0});
  std::vector<float> data(4000);
  collectives.run({.kind = CallKind::kAllReduce, .data = floats(data)}, {});
  EXPECT_EQ(link.sent_bytes, 2 * 4000 * 4 * 3 / 4);
  EXPECT_EQ(link.num_transfers, 2 * 4);
}

TEST(HostCollectives, AShortAllReduceTakesOneStep) {
  CountingLink link;
  HostCollectives collectives(link, {});
  std::vector<float> data(100);
  collectives.run({.kind = CallKind::kAllReduce, .data = floats(data)}, {});
  EXPECT_EQ(link.num_transfers, 1);
}

TEST(HostCollectives, ReduceScatterSendsEachOtherRankItsPieceOnce) {
  CountingLink link;
  HostCollectives collectives(link, {.inbox_bytes = 1 << 12});
  std::vector<float> data(4000);
  std::vector<float> shard(1000);
  collectives.run({.kind = CallKind::kReduceScatter, .data = floats(data), .piece = floats(shard)}, {});
  EXPECT_EQ(link.sent_bytes, 3 * 1000 * 4);
}

TEST(HostCollectives, ARankOfABroadcastSendsToAtMostOneMoreEachRound) {
  CountingLink link;
  HostCollectives collectives(link, {});
  std::vector<float> data(10);
  collectives.run({.kind = CallKind::kBroadcast, .data = floats(data), .root = 1}, {});
  EXPECT_EQ(link.num_transfers, 2);
  EXPECT_EQ(link.sent_bytes, 2 * 40);
}

}  // namespace
}  // namespace litespark::dist
