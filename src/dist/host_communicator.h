// SPDX-License-Identifier: Apache-2.0
// The communicator of every engine on the host: calls wait in a queue, one thread makes them in order beside the ops,
// and the first failure is kept and thrown to whoever comes next.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dist/comm_call.h"
#include "dist/link.h"
#include "dist/ordered_collectives.h"

namespace litespark::dist {

/// Messages of a link, sums and copies on the CPU.
class HostEngine final : public CollectiveEngine {
 public:
  explicit HostEngine(Link& link) : link_(link) {}

  /// Of all transfers until the next.
  void set_deadline(Deadline deadline) { deadline_ = deadline; }

  int rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }
  void transfer(std::span<const Message> sent, std::span<const Message> received) override;
  std::byte* inbox(int64_t bytes) override;
  void reduce(void* out, const void* own, int64_t num_elements, DType dtype, Reduction reduction) override;
  void copy(void* destination, const void* source, int64_t bytes) override;

 private:
  Link& link_;
  Deadline deadline_;
  std::vector<std::byte> inbox_;
  std::vector<const void*> inputs_;
};

class HostCommunicator final : public Communicator {
 public:
  struct Options {
    double timeout_seconds = 600;  ///< of each call, from its beginning
    OrderedCollectives::Options collectives;
  };

  HostCommunicator(std::unique_ptr<Link> link, Options options);
  /// Gives up calls that nobody waited for.
  ~HostCommunicator() override;

  std::string name() const override { return place_.name; }
  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  bool is_ordered() const override { return true; }
  void set_step(int64_t step) override { step_ = step; }

  CommTicket all_reduce(const Tensor& data, Reduction reduction) override;
  CommTicket reduce_scatter(const Tensor& shard, const Tensor& data, Reduction reduction) override;
  CommTicket all_gather(const Tensor& data, const Tensor& shard) override;
  CommTicket broadcast(const Tensor& data, int root) override;
  CommTicket all_to_all(const Tensor& received, const Tensor& sent) override;
  CommTicket exchange(const Tensor& received, int source, const Tensor& sent, int destination) override;
  void wait(CommTicket ticket) override;
  void barrier() override;
  void abort(const std::string& why) override;

 private:
  CommTicket issue(CommCall call);
  void work();
  void make(const CommCall& call);
  /// Keeps the first failure alone. The lock is held.
  void fail(const std::string& what);
  [[noreturn]] void throw_failure() const;

  std::unique_ptr<Link> link_;
  Options options_;
  CallPlace place_;
  HostEngine engine_;
  OrderedCollectives collectives_;
  int64_t step_ = 0;       ///< of the calling thread
  int64_t num_calls_ = 0;  ///< likewise

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<CommCall> queue_;
  int64_t num_done_ = 0;
  std::optional<std::string> failure_;
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace litespark::dist
