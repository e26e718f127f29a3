// SPDX-License-Identifier: Apache-2.0
// The calls of a communicator, made of messages between ranks. A reduction is an all-to-all of pieces and a sum in rank
// order by the piece's owner: the bytes of a reduce-scatter, in one step, with bits that depend on nothing else.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dist/comm_call.h"
#include "dist/link.h"

namespace litespark::dist {

class HostCollectives {
 public:
  /// Pieces of others wait in an inbox of about `inbox_bytes` before they are added; larger calls come in stretches.
  /// Vectors of at most `direct_bytes` are sent whole to everybody: one step instead of two.
  struct Options {
    int64_t inbox_bytes = int64_t{8} << 20;
    int64_t direct_bytes = int64_t{16} << 10;
  };

  HostCollectives(Link& link, Options options);

  /// Makes the call, which was checked. Throws LinkFailure.
  void run(const CommCall& call, Deadline deadline);

 private:
  /// `count` elements of `dtype` at `data`, of which each rank owns a piece: piece r is [bound(r), bound(r + 1)).
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
  void transfer(std::span<const Message> sent, std::span<const Message> received);
  /// Starts the list of what is reduced: this rank's input at its place, the inbox at the others'.
  void reduce_inbox(std::byte* out, const std::byte* own, int64_t num_elements);
  std::byte* inbox(int rank, int64_t piece_bytes);

  Link& link_;
  Options options_;
  int rank_;
  int size_;
  std::vector<std::byte> inbox_;
  std::vector<Message> sent_;  ///< kept, so that the steady state allocates nothing
  std::vector<Message> received_;
  std::vector<const void*> inputs_;

  const CommCall* call_ = nullptr;  ///< the one under way
  CallLabel label_;
  int64_t element_bytes_ = 0;
  Deadline deadline_;
};

}  // namespace litespark::dist
