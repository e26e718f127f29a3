// SPDX-License-Identifier: Apache-2.0
// One call of a communicator as data: checked once, described for people, and as the label that its messages carry, so
// that ranks which make different calls find out at once.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "dist/communicator.h"

namespace litespark::dist {

enum class CallKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kAllToAll, kExchange, kBarrier };

struct CommCall {
  CallKind kind = CallKind::kBarrier;
  Tensor data;   ///< all_reduce, broadcast; the whole of reduce_scatter and all_gather; what an all_to_all receives
  Tensor piece;  ///< the shard of reduce_scatter and all_gather; what an all_to_all sends
  Reduction reduction = Reduction::kSum;
  int root = 0;
  Tensor received;  ///< exchange
  Tensor sent;
  int source = 0;
  int destination = 0;
  int64_t number = 0;  ///< counts the calls of a communicator from 1
  int64_t step = 0;
};

/// Who calls: for checks and messages.
struct CallPlace {
  std::string name;  ///< "gloo"
  int rank = 0;
  int size = 1;
  Device device = Device::kCpu;
  std::string group;  ///< of a split: "ranks 1 and 3"; empty: all ranks

  /// "gloo rank 1 of 4", "gloo rank 1 of 2 (ranks 1 and 3)".
  std::string text() const;
};

/// "ranks 1 and 3", "rank 2".
std::string ranks_text(std::span<const int> ranks);

/// Throws InternalError when no rank could make this call: a wrong place or dtype, pieces that do not fit, an overlap,
/// a rank that does not exist.
void check_call(const CommCall& call, const CallPlace& place);

/// Whether the two must run one after the other: they touch the same memory, or one is a barrier.
bool is_ordered_with(const CommCall& call, const CommCall& other);

/// The `index`-th of `count` equal pieces of `whole`, one after another in memory.
Tensor piece_of(const Tensor& whole, int index, int count);

/// What stands in front of a message. Plain bytes, the same on all ranks of a collective call.
struct CallLabel {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  uint8_t shape_rank = 0;
  int32_t root = 0;
  std::array<int64_t, Shape::kMaxRank> extents{};
  int64_t number = 0;         ///< for people: not compared, since exchanges are not made by all
  int64_t step = 0;           ///< likewise
  uint64_t payload_hash = 0;  ///< of the message's bytes, where a link holds them against it; not compared either

  bool is_same_call(const CallLabel& other) const;
  /// "all_reduce (sum) of f32 [10]".
  std::string what() const;
  /// The same and ", call 5, step 7".
  std::string text() const;
};

CallLabel label_of(const CommCall& call);
/// The label of one half of an exchange.
CallLabel label_of_half(const CommCall& call, const Tensor& half);

}  // namespace litespark::dist
