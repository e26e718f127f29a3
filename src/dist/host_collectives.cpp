// SPDX-License-Identifier: Apache-2.0
#include "dist/host_collectives.h"

#include <algorithm>
#include <cstring>

#include "dist/ordered_reduce.h"

namespace litespark::dist {
namespace {

void copy(void* destination, const void* source, int64_t bytes) {
  if (destination != source && bytes > 0) std::memcpy(destination, source, static_cast<size_t>(bytes));
}

}  // namespace

HostCollectives::HostCollectives(Link& link, Options options)
    : link_(link), options_(options), rank_(link.rank()), size_(link.size()) {}

void HostCollectives::run(const CommCall& call, Deadline deadline) {
  call_ = &call;
  label_ = label_of(call);
  element_bytes_ = dtype_bytes(call.data.dtype);
  deadline_ = deadline;
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

Message HostCollectives::message(int rank, const void* data, int64_t bytes) const {
  return {.rank = rank, .data = const_cast<void*>(data), .bytes = bytes, .label = label_};
}

void HostCollectives::transfer(std::span<const Message> sent, std::span<const Message> received) {
  link_.transfer(sent, received, deadline_);
}

std::byte* HostCollectives::inbox(int rank, int64_t piece_bytes) {
  return inbox_.data() + piece_bytes * (rank < rank_ ? rank : rank - 1);
}

void HostCollectives::reduce_inbox(std::byte* out, const std::byte* own, int64_t num_elements) {
  inputs_.clear();
  for (int rank = 0; rank < size_; ++rank)
    inputs_.push_back(rank == rank_ ? own : inbox(rank, num_elements * element_bytes_));
  reduce_in_order(out, inputs_, num_elements, call_->data.dtype, call_->reduction);
}

void HostCollectives::all_reduce() {
  const Tensor& data = call_->data;
  auto* first = static_cast<std::byte*>(data.data);
  if (size_ == 1) return;
  if (data.bytes() <= options_.direct_bytes) return reduce_direct({first, data.num_elements()});
  const int64_t longest = std::max<int64_t>(options_.inbox_bytes / element_bytes_, size_);
  for (int64_t done = 0; done < data.num_elements(); done += longest) {
    const Stretch stretch{first + done * element_bytes_, std::min(longest, data.num_elements() - done)};
    reduce_in_pieces(stretch);
    gather_pieces(stretch);
  }
}

void HostCollectives::reduce_direct(Stretch stretch) {
  const int64_t bytes = stretch.num_elements * element_bytes_;
  inbox_.resize(std::max(inbox_.size(), static_cast<size_t>(bytes * (size_ - 1))));
  sent_.clear();
  received_.clear();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    sent_.push_back(message(rank, stretch.data, bytes));
    received_.push_back(message(rank, inbox(rank, bytes), bytes));
  }
  transfer(sent_, received_);
  reduce_inbox(stretch.data, stretch.data, stretch.num_elements);
}

void HostCollectives::reduce_in_pieces(Stretch stretch) {
  const int64_t own_first = stretch.bound(rank_, size_);
  const int64_t own_elements = stretch.bound(rank_ + 1, size_) - own_first;
  const int64_t own_bytes = own_elements * element_bytes_;
  inbox_.resize(std::max(inbox_.size(), static_cast<size_t>(own_bytes * (size_ - 1))));
  sent_.clear();
  received_.clear();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const int64_t begin = stretch.bound(rank, size_);
    const int64_t end = stretch.bound(rank + 1, size_);
    sent_.push_back(message(rank, stretch.data + begin * element_bytes_, (end - begin) * element_bytes_));
    received_.push_back(message(rank, inbox(rank, own_bytes), own_bytes));
  }
  transfer(sent_, received_);
  std::byte* own = stretch.data + own_first * element_bytes_;
  reduce_inbox(own, own, own_elements);
}

void HostCollectives::gather_pieces(Stretch stretch) {
  const auto part = [&](int rank, int to) {
    const int64_t begin = stretch.bound(rank, size_);
    const int64_t end = stretch.bound(rank + 1, size_);
    return message(to, stretch.data + begin * element_bytes_, (end - begin) * element_bytes_);
  };
  sent_.clear();
  received_.clear();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    sent_.push_back(part(rank_, rank));
    received_.push_back(part(rank, rank));
  }
  transfer(sent_, received_);
}

void HostCollectives::reduce_scatter() {
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
    inbox_.resize(std::max(inbox_.size(), static_cast<size_t>(bytes * (size_ - 1))));
    sent_.clear();
    received_.clear();
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      sent_.push_back(message(rank, first + rank * piece_bytes + offset, bytes));
      received_.push_back(message(rank, inbox(rank, bytes), bytes));
    }
    transfer(sent_, received_);
    reduce_inbox(out + offset, first + rank_ * piece_bytes + offset, count);
    done += count;
  } while (done < elements);
}

void HostCollectives::all_gather() {
  auto* first = static_cast<std::byte*>(call_->data.data);
  const int64_t piece_bytes = call_->piece.bytes();
  sent_.clear();
  received_.clear();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    sent_.push_back(message(rank, call_->piece.data, piece_bytes));
    received_.push_back(message(rank, first + rank * piece_bytes, piece_bytes));
  }
  transfer(sent_, received_);
  copy(first + rank_ * piece_bytes, call_->piece.data, piece_bytes);
}

void HostCollectives::broadcast() {
  // A binomial tree around the root: in round k the first 2^k ranks each pass it on to one more.
  const int place = (rank_ - call_->root + size_) % size_;
  const auto rank_at = [&](int other_place) { return (other_place + call_->root) % size_; };
  for (int have = 1; have < size_; have *= 2) {
    sent_.clear();
    received_.clear();
    if (place < have && place + have < size_)
      sent_.push_back(message(rank_at(place + have), call_->data.data, call_->data.bytes()));
    if (place >= have && place < 2 * have)
      received_.push_back(message(rank_at(place - have), call_->data.data, call_->data.bytes()));
    if (!sent_.empty() || !received_.empty()) transfer(sent_, received_);
  }
}

void HostCollectives::all_to_all() {
  auto* to = static_cast<std::byte*>(call_->data.data);
  const auto* from = static_cast<const std::byte*>(call_->piece.data);
  const int64_t piece_bytes = call_->data.bytes() / size_;
  sent_.clear();
  received_.clear();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    sent_.push_back(message(rank, from + rank * piece_bytes, piece_bytes));
    received_.push_back(message(rank, to + rank * piece_bytes, piece_bytes));
  }
  transfer(sent_, received_);
  copy(to + rank_ * piece_bytes, from + rank_ * piece_bytes, piece_bytes);
}

void HostCollectives::exchange() {
  const Tensor& sent = call_->sent;
  const Tensor& received = call_->received;
  if (sent.has_value() && call_->destination == rank_) return copy(received.data, sent.data, sent.bytes());
  sent_.clear();
  received_.clear();
  if (sent.has_value()) sent_.push_back(message(call_->destination, sent.data, sent.bytes()));
  if (received.has_value()) {
    received_.push_back(message(call_->source, received.data, received.bytes()));
    received_.back().label = label_of_half(*call_, received);
  }
  if (!sent_.empty() || !received_.empty()) transfer(sent_, received_);
}

void HostCollectives::barrier() {
  // Dissemination: after round k a rank has heard, over others, from the 2^k ranks before it.
  for (int distance = 1; distance < size_; distance *= 2) {
    sent_.assign(1, message((rank_ + distance) % size_, nullptr, 0));
    received_.assign(1, message((rank_ - distance + size_) % size_, nullptr, 0));
    transfer(sent_, received_);
  }
}

}  // namespace litespark::dist
