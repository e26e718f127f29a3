// SPDX-License-Identifier: Apache-2.0
// What ranks send each other, as ops: they stand on a tape like any other, but run on the communicator beside the ops
// around them, until a wait (dist/communicator.h).
#pragma once

#include <string_view>

namespace litespark::op {

/// shard = the rank's piece of the sum of `data` over ranks, added in f32 or wider. data [R S], shard [S], which may be
/// that very piece; the other pieces of `data` are undefined afterwards. Starts when the ops before it are done; until
/// the CommWait of the same call both tensors belong to it.
template <class T>
struct ReduceScatter {
  static constexpr std::string_view kName = "reduce_scatter";
  static constexpr bool kIsCommunication = true;
  T shard, data;
  int ranks = 1;  ///< R
  int call = 0;   ///< tells the calls under way on one tape apart

  template <class F>
  auto map(F&& f) const {
    return ReduceScatter<decltype(f.inout("data", data))>{
        .shard = f.out("shard", shard), .data = f.inout("data", data), .ranks = ranks, .call = call};
  }
};

/// data = the shards of all ranks in rank order. data [R S], shard [S], which may be the rank's piece of `data`. Starts
/// and ends as ReduceScatter; until the CommWait `shard` may be read.
template <class T>
struct AllGather {
  static constexpr std::string_view kName = "all_gather";
  static constexpr bool kIsCommunication = true;
  T data, shard;
  int ranks = 1;
  int call = 0;

  template <class F>
  auto map(F&& f) const {
    return AllGather<decltype(f.in("shard", shard))>{
        .data = f.out("data", data), .shard = f.in("shard", shard), .ranks = ranks, .call = call};
  }
};

/// The ops after it run when the call is done. Names the tensor that the call fills.
template <class T>
struct CommWait {
  static constexpr std::string_view kName = "comm_wait";
  static constexpr bool kIsCommunication = true;
  T tensor;
  int call = 0;

  template <class F>
  auto map(F&& f) const {
    return CommWait<decltype(f.inout("tensor", tensor))>{.tensor = f.inout("tensor", tensor), .call = call};
  }
};

/// An op that the communicator runs, not the backend.
template <class Op>
concept Communication = requires {
  Op::kIsCommunication;
};

}  // namespace litespark::op
