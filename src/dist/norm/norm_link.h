// SPDX-License-Identifier: Apache-2.0
// What all ranks get alike, sent once to all of them: reliable multicast (NORM, RFC 5740) over UDP. Lost packets are
// asked for again by whoever misses them; nobody waits for that longer than the call's deadline.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/link.h"

namespace litespark::dist {

struct NormOptions {
  int rank = 0;
  int size = 1;
  std::string address;  ///< this rank's, on the network whose hosts are reached: "10.0.0.7"
  uint64_t job = 0;     ///< the same on all ranks, by chance another one for every run: what has another is not heard
  double bits_per_second = 1e9;      ///< that this rank may send; ranks of a call send at the same time
  double round_trip_seconds = 2e-3;  ///< at most, between hosts that are busy: how soon a loss is noticed
  double lost_percent = 0;           ///< for tests: of received packets, thrown away
};

/// Ranks that multicast to each other. Each set of ranks that makes a call has a group address of its own, so that
/// others do not hear it. Only messages with `is_for_all` can be sent. A message is copied when it is sent, and kept
/// until the call after the next one of its set: who takes part in that one has everything of this one.
///
/// NORM authenticates nothing: a message must bear the job's number and the hash (XXH3) of its bytes, and is not heard
/// otherwise. Another call of a rank is found when its message comes; a rank that is lost, at the deadline or by
/// `abort`.
class NormLink final : public Link {
 public:
  /// Throws LinkFailure where no interface has the address or NORM cannot start.
  explicit NormLink(const NormOptions& options);
  /// Waits up to half a second until the others have what was sent last.
  ~NormLink() override;

  std::string name() const override { return "norm"; }
  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  void transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) override;
  void abort(const std::string& why) noexcept override;

  /// From the next message on.
  void set_rate(double bits_per_second);
  /// Bytes of a packet's payload, from the interface's MTU.
  int segment_bytes() const { return segment_bytes_; }

 private:
  class Instance;
  struct Group;
  struct Header;

  Group& group_of(std::span<const Message> sent, std::span<const Message> received);
  void send(Group& group, const Message& message);
  void await(Group& group, std::span<const Message> received, Deadline deadline);
  void hear_events(int milliseconds);
  void hear_object(Group& group, const void* object);
  void check_alive() const;

  const NormOptions options_;
  double bits_per_second_;
  std::string interface_;
  int segment_bytes_ = 0;
  std::unique_ptr<Instance> instance_;

  mutable std::mutex mutex_;  ///< of what abort looks at
  std::map<std::vector<int>, std::unique_ptr<Group>> groups_;
  std::string why_;  ///< empty: not aborted
};

}  // namespace litespark::dist
