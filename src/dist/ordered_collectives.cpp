// SPDX-License-Identifier: Apache-2.0
#include "dist/ordered_collectives.h"

#include <algorithm>

namespace litespark::dist {

OrderedCollectives::OrderedCollectives(CollectiveEngine& engine, Options options)
    : engine_(engine), options_(options), rank_(engine.rank()), size_(engine.size()) {}

void OrderedCollectives::run(const CommCall& call) {
  call_ = &call;
  label_ = label_of(call);
  element_bytes_ = dtype_bytes(call.data.dtype);
  switch (call.kind) {
    case CallKind::kAllReduce: return all_reduce();
    case CallKind::kReduceScatter: return reduce_scatter();
    case CallKind::kAllGather: return all_gather();
    case CallKind::kBroadcast: return broadcast();
    case CallKind::kAllToAll: return all_to_all();
    case CallKind::kExchange: return exchange();
    case CallKind::kBarrier: return barrier();
  }
}

Message OrderedCollectives::message(int rank, const void* data, int64_t bytes) const {
  return {.rank = rank, .data = const_cast<void*>(data), .bytes = bytes, .label = label_};
}

Message OrderedCollectives::message_for_all(int rank, const void* data, int64_t bytes) const {
  Message result = message(rank, data, bytes);
  result.is_for_all = true;
  return result;
}

void OrderedCollectives::start_lists() {
  sent_.clear();
  received_.clear();
}

std::byte* OrderedCollectives::place_in(std::byte* inbox, int rank, int64_t piece_bytes) const {
  return inbox + piece_bytes * (rank < rank_ ? rank : rank - 1);
}

void OrderedCollectives::reduce(std::byte* out, const std::byte* own, int64_t num_elements) {
  engine_.reduce(out, own, num_elements, call_->data.dtype, call_->reduction);
}

void OrderedCollectives::copy(void* destination, const void* source, int64_t bytes) {
  if (destination != source && bytes > 0) engine_.copy(destination, source, bytes);
}

void OrderedCollectives::all_reduce() {
  const Tensor& data = call_->data;
  auto* first = static_cast<std::byte*>(data.data);
  if (size_ == 1) return;
  if (data.bytes() <= options_.direct_bytes && data.bytes() * (size_ - 1) <= options_.inbox_bytes)
    return reduce_direct({first, data.num_elements()});
  const int64_t longest = std::max<int64_t>(options_.inbox_bytes / element_bytes_, size_);
  for (int64_t done = 0; done < data.num_elements(); done += longest) {
    const Stretch stretch{first + done * element_bytes_, std::min(longest, data.num_elements() - done)};
    reduce_in_pieces(stretch);
    gather_pieces(stretch);
  }
}

void OrderedCollectives::reduce_direct(Stretch stretch) {
  const int64_t bytes = stretch.num_elements * element_bytes_;
  std::byte* inbox = engine_.inbox(bytes * (size_ - 1));
  start_lists();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    sent_.push_back(message_for_all(rank, stretch.data, bytes));
    received_.push_back(message_for_all(rank, place_in(inbox, rank, bytes), bytes));
  }
  engine_.transfer(sent_, received_);
  reduce(stretch.data, stretch.data, stretch.num_elements);
}

void OrderedCollectives::reduce_in_pieces(Stretch stretch) {
  const int64_t own_first = stretch.bound(rank_, size_);
  const int64_t own_elements = stretch.bound(rank_ + 1, size_) - own_first;
  const int64_t own_bytes = own_elements * element_bytes_;
  std::byte* inbox = engine_.inbox(own_bytes * (size_ - 1));
  start_lists();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const int64_t begin = stretch.bound(rank, size_);
    const int64_t end = stretch.bound(rank + 1, size_);
    sent_.push_back(message(rank, stretch.data + begin * element_bytes_, (end - begin) * element_bytes_));
    received_.push_back(message(rank, place_in(inbox, rank, own_bytes), own_bytes));
  }
  engine_.transfer(sent_, received_);
  std::byte* own = stretch.data + own_first * element_bytes_;
  reduce(own, own, own_elements);
}

void OrderedCollectives::gather_pieces(Stretch stretch) {
  const auto part = [&](int rank, int to) {
    const int64_t begin = stretch.bound(rank, size_);
    const int64_t end = stretch.bound(rank + 1, size_);
    return message_for_all(to, stretch.data + begin * element_bytes_, (end - begin) * element_bytes_);
  };
  start_lists();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    sent_.push_back(part(rank_, rank));
    received_.push_back(part(rank, rank));
  }
  engine_.transfer(sent_, received_);
}

void OrderedCollectives::reduce_scatter() {
  const Tensor& data = call_->data;
  auto* out = static_cast<std::byte*>(call_->piece.data);
  const int64_t elements = call_->piece.num_elements();
  const int64_t piece_bytes = call_->piece.bytes();
  const auto* first = static_cast<const std::byte*>(data.data);
  if (size_ == 1) return copy(out, first, piece_bytes);
  const int64_t longest = std::max<int64_t>(options_.inbox_bytes / element_bytes_ / size_, 1);
  int64_t done = 0;
  do {  // a call without elements still meets its peers
    const int64_t count = std::min(longest, elements - done);
    const int64_t bytes = count * element_bytes_;
    const int64_t offset = done * element_bytes_;
    std::byte* inbox = engine_.inbox(bytes * (size_ - 1));
    start_lists();
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      sent_.push_back(message(rank, first + rank * piece_bytes + offset, bytes));
      received_.push_back(message(rank, place_in(inbox, rank, bytes), bytes));
    }
    engine_.transfer(sent_, received_);
    reduce(out + offset, first + rank_ * piece_bytes + offset, count);
    done += count;
  } while (done < elements);
}

void OrderedCollectives::all_gather() {
  auto* first = static_cast<std::byte*>(call_->data.data);
  const int64_t piece_bytes = call_->piece.bytes();
  start_lists();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    sent_.push_back(message_for_all(rank, call_->piece.data, piece_bytes));
    received_.push_back(message_for_all(rank, first + rank * piece_bytes, piece_bytes));
  }
  engine_.transfer(sent_, received_);
  copy(first + rank_ * piece_bytes, call_->piece.data, piece_bytes);
}

void OrderedCollectives::broadcast() {
  // A binomial tree around the root: in round k the first 2^k ranks each pass it on to one more.
  const int place = (rank_ - call_->root + size_) % size_;
  const auto rank_at = [&](int other_place) { return (other_place + call_->root) % size_; };
  for (int have = 1; have < size_; have *= 2) {
    start_lists();
    if (place < have && place + have < size_)
      sent_.push_back(message(rank_at(place + have), call_->data.data, call_->data.bytes()));
    if (place >= have && place < 2 * have)
      received_.push_back(message(rank_at(place - have), call_->data.data, call_->data.bytes()));
    if (!sent_.empty() || !received_.empty()) engine_.transfer(sent_, received_);
  }
}

void OrderedCollectives::all_to_all() {
  auto* to = static_cast<std::byte*>(call_->data.data);
  const auto* from = static_cast<const std::byte*>(call_->piece.data);
  const int64_t piece_bytes = call_->data.bytes() / size_;
  start_lists();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    sent_.push_back(message(rank, from + rank * piece_bytes, piece_bytes));
    received_.push_back(message(rank, to + rank * piece_bytes, piece_bytes));
  }
  engine_.transfer(sent_, received_);
  copy(to + rank_ * piece_bytes, from + rank_ * piece_bytes, piece_bytes);
}

void OrderedCollectives::exchange() {
  const Tensor& sent = call_->sent;
  const Tensor& received = call_->received;
  if (sent.has_value() && call_->destination == rank_) return copy(received.data, sent.data, sent.bytes());
  start_lists();
  if (sent.has_value()) sent_.push_back(message(call_->destination, sent.data, sent.bytes()));
  if (received.has_value()) {
    received_.push_back(message(call_->source, received.data, received.bytes()));
    received_.back().label = label_of_half(*call_, received);
  }
  if (!sent_.empty() || !received_.empty()) engine_.transfer(sent_, received_);
}

void OrderedCollectives::barrier() {
  // Dissemination: after round k a rank has heard, over others, from the 2^k ranks before it.
  for (int distance = 1; distance < size_; distance *= 2) {
    sent_.assign(1, message((rank_ + distance) % size_, nullptr, 0));
    received_.assign(1, message((rank_ - distance + size_) % size_, nullptr, 0));
    engine_.transfer(sent_, received_);
  }
}

}  // namespace litespark::dist
