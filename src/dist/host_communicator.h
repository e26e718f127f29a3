// SPDX-License-Identifier: Apache-2.0
// The communicator of every engine on the host: calls wait in a queue, threads make them beside the ops, and the first
// failure is kept and thrown to whoever comes next. Groups of its ranks share queue, threads and failure.
//
// Each link that it has is a lane with a thread, and a group's next call takes the one with the fewest bytes so far:
// while one call adds, or waits for its thread's turn on a core, the bytes of the next one are on their way. Calls that
// touch the same memory run in the order in which they were issued.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dist/call_record.h"
#include "dist/comm_call.h"
#include "dist/link.h"
#include "dist/ordered_collectives.h"

namespace litespark::dist {

/// Messages of a link among some of its ranks, sums and copies on the CPU.
class HostEngine final : public CollectiveEngine {
 public:
  /// `members`: ranks of the link in ascending order, this one among them.
  HostEngine(Link& link, std::vector<int> members);

  /// Of the first step of the call that begins; later ones have a little more.
  void set_deadline(Deadline deadline) {
    deadline_ = deadline;
    num_transfers_ = 0;
  }
  const std::vector<int>& members() const { return members_; }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void transfer(std::span<const Message> sent, std::span<const Message> received) override;
  std::byte* inbox(int64_t bytes) override;
  void reduce(void* out, const void* own, int64_t num_elements, DType dtype, Reduction reduction) override;
  void copy(void* destination, const void* source, int64_t bytes) override;

 private:
  /// The link's numbers in the place of the group's.
  std::span<const Message> renamed(std::span<const Message> messages, std::vector<Message>& room) const;

  Link& link_;
  std::vector<int> members_;
  int rank_ = 0;
  Deadline deadline_;
  int num_transfers_ = 0;  ///< of the call under way
  std::vector<std::byte> inbox_;
  std::vector<const void*> inputs_;
  std::vector<Message> sent_;  ///< kept, so that the steady state allocates nothing
  std::vector<Message> received_;
};

class HostCommunicator final : public Communicator {
 public:
  struct Options {
    double timeout_seconds = 600;             ///< of each call, from its beginning
    int num_lanes = 4;                        ///< where an engine can have several links; MPI has one
    OrderedCollectives::Options collectives;  ///< the inbox is shared out to the lanes
    std::shared_ptr<CallRecord> record;       ///< of all groups' calls; nullptr: none is kept
  };

  /// `links`: one a lane, among the same ranks.
  HostCommunicator(std::vector<std::unique_ptr<Link>> links, const Options& options);
  HostCommunicator(std::unique_ptr<Link> link, const Options& options);
  /// Gives up calls that nobody waited for.
  ~HostCommunicator() override;

  std::string name() const override { return place_.name; }
  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  bool is_ordered() const override { return true; }
  void set_step(int64_t step) override;

  CommTicket all_reduce(const Tensor& data, Reduction reduction) override;
  CommTicket reduce_scatter(const Tensor& shard, const Tensor& data, Reduction reduction) override;
  CommTicket all_gather(const Tensor& data, const Tensor& shard) override;
  CommTicket broadcast(const Tensor& data, int root) override;
  CommTicket all_to_all(const Tensor& received, const Tensor& sent) override;
  CommTicket exchange(const Tensor& received, int source, const Tensor& sent, int destination) override;
  void wait(CommTicket ticket) override;
  std::unique_ptr<Communicator> split(int color) override;
  void barrier() override;
  void abort(const std::string& why) override;

 private:
  class Calls;
  struct Group;

  HostCommunicator(std::shared_ptr<Calls> calls, std::vector<int> members, const CallPlace& place);
  CommTicket issue(CommCall call);

  std::shared_ptr<Calls> calls_;  ///< of all groups
  Group* group_ = nullptr;        ///< owned by calls_
  CallPlace place_;
  int64_t last_call_ = 0;
};

}  // namespace litespark::dist
