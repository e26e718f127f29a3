// SPDX-License-Identifier: Apache-2.0
// A rank's side of the meeting of a job: it joins with proof of the secret, shares small values with the others, and
// hears when one of them is lost.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dist/rendezvous_server.h"

namespace litespark::dist {

struct RendezvousAddress {
  std::string host;
  int port = 0;
};

class Rendezvous {
 public:
  /// Returns when all ranks are there and agree on their facts. Throws ConfigError when this rank or the job is
  /// refused, with every difference; CommError when nobody answers, or not all came in time.
  Rendezvous(const RendezvousAddress& address, const JobPlace& place, const JobFacts& facts, const Secret& secret,
             const RendezvousOptions& options = {});
  /// Leaves in good order; while an exception unwinds the others see this rank lost.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  const JobPlace& place() const { return place_; }
  /// The end of this rank's own connection to the others' network: the address to listen on for them.
  std::string own_address() const;

  void set(const std::string& key, const std::string& value);
  /// Waits until somebody has set it. Throws CommError at the deadline or when a rank is lost.
  std::string get(const std::string& key, Clock::time_point deadline);

  /// Called once, on another thread, with "rank 2 closed the connection" or the like; at once when it has happened
  /// already. Replaces the one before; {} for none, and then none is running any more.
  void on_loss(std::function<void(const std::string& what)> callback);

 private:
  void join(const RendezvousAddress& address, const JobFacts& facts, const std::string& secret);
  /// False when the server was not there yet or had no room.
  bool try_to_join(const RendezvousAddress& address, const JobFacts& facts, const std::string& secret,
                   Clock::time_point deadline, std::string& reason);
  void await_welcome(Clock::time_point deadline);
  void listen();
  void hear(const std::string& message);
  void hear_last_words();
  void say(const std::string& message);
  void lose(const std::string& what);

  const JobPlace place_;
  const RendezvousOptions options_;
  Socket socket_;
  FrameReader reader_{kMostKnownBytes};
  Clock::time_point last_heard_;

  std::mutex send_mutex_;
  Session session_;  ///< sealing under send_mutex_, opening by one thread

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::optional<std::string> loss_;
  bool is_closing_ = false;

  std::mutex callback_mutex_;
  std::function<void(const std::string&)> on_loss_;
  std::thread thread_;
};

/// The first rank that has this rank's own address: a number that ranks of one host share, and no others have. All
/// ranks call it. Throws CommError at the deadline or when a rank is lost.
int host_number(Rendezvous& rendezvous, Clock::time_point deadline);

}  // namespace litespark::dist
