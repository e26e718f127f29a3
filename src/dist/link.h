// SPDX-License-Identifier: Apache-2.0
// The little that an engine on the host must do for a communicator: labelled messages between ranks, in order, with a
// deadline. What is built of them (ordered_collectives) is the same for threads, Gloo and MPI, and so are its bits.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "dist/ordered_collectives.h"

namespace litespark::dist {

using Deadline = std::chrono::steady_clock::time_point;

/// Why a transfer failed, in words that name the rank. A communicator makes a CommError of it.
class LinkFailure : public std::runtime_error {
 public:
  enum class Cause : uint8_t {
    kFound,  ///< by this rank itself
    kTold,   ///< by another rank, which gave up
    kLate,   ///< the deadline came, and who is missed can be heard: Link::failure_of
  };
  explicit LinkFailure(const std::string& what, Cause cause = Cause::kFound) : runtime_error(what), cause_(cause) {}
  /// No word from `missed` before the deadline: not empty, may hold a rank twice.
  static LinkFailure late(std::span<const int> missed);

  Cause cause() const { return cause_; }
  const std::vector<int>& missed() const { return missed_; }  ///< of kLate, in ascending order

 private:
  Cause cause_;
  std::vector<int> missed_;
};

class Link {
 public:
  virtual ~Link() = default;

  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Moves all messages beside each other and returns when the sent ones may be changed and the received ones are
  /// there. Messages from one rank to another arrive in the order in which they were sent. A label that differs is
  /// found before a byte of its message is stored. Throws LinkFailure at the deadline and when a rank is lost or has
  /// given up; no memory of a message is touched after abort(), which follows. Called by one thread at a time.
  virtual void transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) = 0;

  /// Whether a call with this label must take this link rather than another one beside it: it has a way of its own
  /// here. The same on all ranks.
  virtual bool must_carry(const CallLabel& /*label*/) const { return false; }

  /// Says that this rank has nothing more to say, where others must hear it before the link goes; the destructor then
  /// waits for their word. Whoever leaves several links says it on all of them first, so that their waits run together.
  virtual void announce_leave() noexcept {}

  /// Tells the others why this rank gives up, without waiting; abort() follows. Any thread.
  virtual void announce_failure(const std::string& /*why*/) noexcept {}
  /// Why `rank` gave up, "rank 2 gave up: ...", if it has told it by now.
  virtual std::optional<std::string> failure_of(int /*rank*/) { return std::nullopt; }
  /// From whom the transfer under way waits for a word, but for those that gave up: each once. Any thread.
  virtual std::vector<int> missed_ranks() { return {}; }

  /// Ends a transfer under way and all later ones here, and tells the others. Returns when no memory of a failed
  /// transfer is touched any more. Any thread; does not throw.
  virtual void abort(const std::string& why) noexcept = 0;
};

/// "rank 2 made another call: ...", for a label that differs.
std::string other_call_text(int rank, const CallLabel& label);
/// "no word from ranks 1 and 3": `awaited` must not be empty, may hold a rank twice.
std::string no_word_text(std::span<const int> awaited);
/// "no word from ranks 1 and 3 before the deadline": likewise.
std::string late_text(std::span<const int> awaited);

}  // namespace litespark::dist
