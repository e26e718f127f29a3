// SPDX-License-Identifier: Apache-2.0
// The calls of a communicator, made of messages between ranks, for every engine that can pass messages and add. A
// reduction is an all-to-all of pieces and a sum in rank order by the piece's owner: the bytes of a reduce-scatter, in
// one step, with bits that depend on nothing else.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dist/comm_call.h"

namespace litespark::dist {

/// Bytes to or from another rank.
struct Message {
  int rank = 0;
  void* data = nullptr;  ///< only read when it is sent
  int64_t bytes = 0;
  CallLabel label;  ///< of a received message: what it must be
  /// Every other rank of the call gets these same bytes. In one transfer all messages, of all ranks, are so or none.
  bool is_for_all = false;
};

/// What the calls are made of. On a GPU all of it is only put on a stream, in order.
class CollectiveEngine {
 public:
  virtual ~CollectiveEngine() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Moves all messages beside each other; between two ranks they keep their order.
  virtual void transfer(std::span<const Message> sent, std::span<const Message> received) = 0;
  /// Memory for what others send, of at least `bytes`.
  virtual std::byte* inbox(int64_t bytes) = 0;
  /// out = the reduction in rank order of `own`, at this rank's place, and of size() - 1 equal pieces in the inbox.
  virtual void reduce(void* out, const void* own, int64_t num_elements, DType dtype, Reduction reduction) = 0;
  virtual void copy(void* destination, const void* source, int64_t bytes) = 0;
};

class OrderedCollectives {
 public:
  /// Pieces of others wait in an inbox of about `inbox_bytes` before they are added; larger calls come in stretches.
  /// Vectors of at most `direct_bytes` are sent whole to everybody: one step instead of two.
  struct Options {
    int64_t inbox_bytes = int64_t{8} << 20;
    int64_t direct_bytes = int64_t{16} << 10;
  };

  OrderedCollectives(CollectiveEngine& engine, Options options);

  /// Makes the call, which was checked.
  void run(const CommCall& call);

 private:
  /// `num_elements` at `data`, of which each rank owns a piece: that of rank r is [bound(r), bound(r + 1)).
  struct Stretch {
    std::byte* data;
    int64_t num_elements;
    int64_t bound(int rank, int size) const { return num_elements * rank / size; }
  };

  void all_reduce();
  void reduce_direct(Stretch stretch);
  void reduce_in_pieces(Stretch stretch);
  void gather_pieces(Stretch stretch);
  void reduce_scatter();
  void all_gather();
  void broadcast();
  void all_to_all();
  void exchange();
  void barrier();

  Message message(int rank, const void* data, int64_t bytes) const;
  Message message_for_all(int rank, const void* data, int64_t bytes) const;
  void start_lists();
  /// Where the piece of another rank waits.
  std::byte* place_in(std::byte* inbox, int rank, int64_t piece_bytes) const;
  void reduce(std::byte* out, const std::byte* own, int64_t num_elements);
  void copy(void* destination, const void* source, int64_t bytes);

  CollectiveEngine& engine_;
  Options options_;
  int rank_;
  int size_;
  std::vector<Message> sent_;  ///< kept, so that the steady state allocates nothing
  std::vector<Message> received_;

  const CommCall* call_ = nullptr;  ///< the one under way
  CallLabel label_;
  int64_t element_bytes_ = 0;
};

}  // namespace litespark::dist
