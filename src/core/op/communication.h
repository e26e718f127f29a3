// SPDX-License-Identifier: Apache-2.0
// What ranks send each other, as ops: they stand on a tape like any other, but run on the communicator beside the ops
// around them, until a wait (dist/communicator.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// Who makes a call: ranks with the same weights on rows of their own; ranks that share one replica's layers; the
/// stages of one replica, in order; of them the first and the last; ranks that share the rows of a micro-batch; all.
enum class CommGroup : uint8_t { kData, kTensor, kStages, kEnds, kContext, kWorld };
inline constexpr size_t kNumCommGroups = 6;

/// data = the sum of `data` over ranks, added in f32 or wider, on every rank. Starts and ends as ReduceScatter.
template <class T>
struct AllReduce {
  static constexpr std::string_view kName = "all_reduce";
  static constexpr bool kIsCommunication = true;
  T data;
  CommGroup group = CommGroup::kData;
  int call = 0;

  template <class F>
  auto map(F&& f) const {
    return AllReduce<decltype(f.inout("data", data))>{.data = f.inout("data", data), .group = group, .call = call};
  }
};

/// shard = the rank's piece of the sum of `data` over ranks, added in f32 or wider. data [R S], shard [S], which may be
/// that very piece; the other pieces of `data` are undefined afterwards. Starts when the ops before it are done; until
/// the CommWait of the same call both tensors belong to it.
template <class T>
struct ReduceScatter {
  static constexpr std::string_view kName = "reduce_scatter";
  static constexpr bool kIsCommunication = true;
  T shard, data;
  int ranks = 1;  ///< R
  CommGroup group = CommGroup::kData;
  int call = 0;  ///< tells the calls under way on one tape apart

  template <class F>
  auto map(F&& f) const {
    return ReduceScatter<decltype(f.inout("data", data))>{
        .shard = f.out("shard", shard), .data = f.inout("data", data), .ranks = ranks, .group = group, .call = call};
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
  CommGroup group = CommGroup::kData;
  int call = 0;

  template <class F>
  auto map(F&& f) const {
    return AllGather<decltype(f.in("shard", shard))>{
        .data = f.out("data", data), .shard = f.in("shard", shard), .ranks = ranks, .group = group, .call = call};
  }
};

/// data = the pieces that all ranks have sent to this one, in rank order: piece r of `sent` goes to rank r. data, sent
/// [R S], no overlap. Starts and ends as ReduceScatter; until the CommWait `sent` may be read.
template <class T>
struct AllToAll {
  static constexpr std::string_view kName = "all_to_all";
  static constexpr bool kIsCommunication = true;
  T data, sent;
  int ranks = 1;
  CommGroup group = CommGroup::kData;
  int call = 0;

  template <class F>
  auto map(F&& f) const {
    return AllToAll<decltype(f.in("sent", sent))>{
        .data = f.out("data", data), .sent = f.in("sent", sent), .ranks = ranks, .group = group, .call = call};
  }
};

/// `sent` goes to a neighbouring stage, which receives it by an op of its own; stages stand in a ring. Starts when the
/// ops before it are done; until the CommWait of the same call `sent` may be read.
template <class T>
struct Send {
  static constexpr std::string_view kName = "send";
  static constexpr bool kIsCommunication = true;
  T sent;
  int neighbour = 1;  ///< 1: the next stage; -1: the one before
  int call = 0;

  template <class F>
  auto map(F&& f) const {
    return Send<decltype(f.in("sent", sent))>{.sent = f.in("sent", sent), .neighbour = neighbour, .call = call};
  }
};

/// `received` = what a neighbouring stage sends, of the same shape. What goes from one stage to another is received in
/// the order in which it was sent. Until the CommWait of the same call `received` belongs to it.
template <class T>
struct Receive {
  static constexpr std::string_view kName = "receive";
  static constexpr bool kIsCommunication = true;
  T received;
  int neighbour = -1;  ///< as of Send
  int call = 0;

  template <class F>
  auto map(F&& f) const {
    return Receive<decltype(f.out("received", received))>{
        .received = f.out("received", received), .neighbour = neighbour, .call = call};
  }
};

/// `received` = what the context rank before this one sends by the same op, of the same shape; `sent` goes to the next
/// one. They stand in a ring, and all of them make the call: both halves of it progress together. Starts and ends as
/// ReduceScatter; until the CommWait `received` belongs to it and `sent` may be read.
template <class T>
struct PassOn {
  static constexpr std::string_view kName = "pass_on";
  static constexpr bool kIsCommunication = true;
  T received, sent;
  int call = 0;

  template <class F>
  auto map(F&& f) const {
    return PassOn<decltype(f.in("sent", sent))>{
        .received = f.out("received", received), .sent = f.in("sent", sent), .call = call};
  }
};

/// The ops after it run when the call is done. Names the tensor that the call fills, and, where it is temporary, the
/// one that the call reads: both keep their memory until here.
template <class T>
struct CommWait {
  static constexpr std::string_view kName = "comm_wait";
  static constexpr bool kIsCommunication = true;
  T tensor, source;
  int call = 0;

  template <class F>
  auto map(F&& f) const {
    return CommWait<decltype(f.inout("tensor", tensor))>{
        .tensor = f.inout("tensor", tensor), .source = f.in("source", source), .call = call};
  }
};

/// An op that the communicator runs, not the backend.
template <class Op>
concept Communication = requires {
  Op::kIsCommunication;
};

}  // namespace litespark::op
