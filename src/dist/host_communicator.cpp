// SPDX-License-Identifier: Apache-2.0
#include "dist/host_communicator.h"

#include <cmath>
#include <cstring>
#include <exception>
#include <utility>

#include "core/error.h"
#include "dist/ordered_reduce.h"

namespace litespark::dist {

void HostEngine::transfer(std::span<const Message> sent, std::span<const Message> received) {
  link_.transfer(sent, received, deadline_);
}

std::byte* HostEngine::inbox(int64_t bytes) {
  if (static_cast<int64_t>(inbox_.size()) < bytes) inbox_.resize(static_cast<size_t>(bytes));
  return inbox_.data();
}

void HostEngine::reduce(void* out, const void* own, int64_t num_elements, DType dtype, Reduction reduction) {
  const std::byte* other = inbox_.data();
  inputs_.clear();
  for (int rank = 0; rank < size(); ++rank) {
    inputs_.push_back(rank == this->rank() ? own : other);
    if (rank != this->rank()) other += num_elements * dtype_bytes(dtype);
  }
  reduce_in_order(out, inputs_, num_elements, dtype, reduction);
}

void HostEngine::copy(void* destination, const void* source, int64_t bytes) {
  std::memcpy(destination, source, static_cast<size_t>(bytes));
}

HostCommunicator::HostCommunicator(std::unique_ptr<Link> link, Options options)
    : link_(std::move(link)),
      options_(options),
      place_{.name = link_->name(), .rank = link_->rank(), .size = link_->size()},
      engine_(*link_),
      collectives_(engine_, options.collectives),
      thread_([this] { work(); }) {}

HostCommunicator::~HostCommunicator() {
  bool has_calls = false;
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    has_calls = num_done_ < num_calls_ && !failure_;
    if (has_calls) fail("given up with calls under way");
  }
  changed_.notify_all();
  if (has_calls) link_->abort("left with calls under way");
  thread_.join();
}

CommTicket HostCommunicator::all_reduce(const Tensor& data, Reduction reduction) {
  return issue({.kind = CallKind::kAllReduce, .data = data, .reduction = reduction});
}

CommTicket HostCommunicator::reduce_scatter(const Tensor& shard, const Tensor& data, Reduction reduction) {
  return issue({.kind = CallKind::kReduceScatter, .data = data, .piece = shard, .reduction = reduction});
}

CommTicket HostCommunicator::all_gather(const Tensor& data, const Tensor& shard) {
  return issue({.kind = CallKind::kAllGather, .data = data, .piece = shard});
}

CommTicket HostCommunicator::broadcast(const Tensor& data, int root) {
  return issue({.kind = CallKind::kBroadcast, .data = data, .root = root});
}

CommTicket HostCommunicator::all_to_all(const Tensor& received, const Tensor& sent) {
  return issue({.kind = CallKind::kAllToAll, .data = received, .piece = sent});
}

CommTicket HostCommunicator::exchange(const Tensor& received, int source, const Tensor& sent, int destination) {
  return issue(
      {.kind = CallKind::kExchange, .received = received, .sent = sent, .source = source, .destination = destination});
}

void HostCommunicator::barrier() {
  wait(issue({.kind = CallKind::kBarrier}));
}

CommTicket HostCommunicator::issue(CommCall call) {
  check_call(call, place_);
  call.step = step_;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw_failure();
    call.number = ++num_calls_;
    queue_.push_back(call);
  }
  changed_.notify_all();
  return {num_calls_};
}

void HostCommunicator::wait(CommTicket ticket) {
  std::unique_lock lock(mutex_);
  if (ticket.id < 1 || ticket.id > num_calls_)
    throw InternalError(place_.text(), "wait for a call that was never made", ticket.id, num_calls_);
  changed_.wait(lock, [&] { return num_done_ >= ticket.id || failure_; });
  if (failure_) throw_failure();
}

void HostCommunicator::abort(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    fail("aborted: " + why);
  }
  changed_.notify_all();
  link_->abort(why);
}

void HostCommunicator::fail(const std::string& what) {
  if (!failure_) failure_ = what;
}

void HostCommunicator::throw_failure() const {
  throw CommError(place_.text(), *failure_);
}

void HostCommunicator::work() {
  while (true) {
    CommCall call;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_closing_ || failure_ || !queue_.empty(); });
      if (is_closing_ || failure_) return;
      call = queue_.front();
      queue_.pop_front();
    }
    make(call);
    changed_.notify_all();
  }
}

void HostCommunicator::make(const CommCall& call) {
  const auto timeout =
      std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(options_.timeout_seconds));
  std::string what;
  try {
    engine_.set_deadline(std::chrono::steady_clock::now() + timeout);
    collectives_.run(call);
    const std::lock_guard lock(mutex_);
    ++num_done_;
    return;
  } catch (const std::exception& error) {
    what = label_of(call).text() + ": " + error.what();
  }
  what += " (a call has " + std::to_string(std::llround(options_.timeout_seconds)) + " s)";
  {
    const std::lock_guard lock(mutex_);
    fail(what);
  }
  link_->abort(what);
}

}  // namespace litespark::dist
