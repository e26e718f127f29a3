// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a job meet: one TCP port, in the process of rank 0. It lets in who knows the secret and belongs to
// this attempt of this job, starts the job when all are there and agree, keeps a small store for them, and tells
// everybody when one of them is lost.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dist/rendezvous_wire.h"
#include "dist/secret.h"
#include "dist/tcp.h"

namespace litespark::dist {

struct RendezvousOptions {
  double join_seconds = 300;      ///< until all ranks must be there
  double unknown_seconds = 2;     ///< for a connection to show that it knows the secret
  size_t most_unknown = 64;       ///< connections that have not shown it yet
  double heartbeat_seconds = 20;  ///< a rank that says nothing for so long is lost
};

class RendezvousServer {
 public:
  /// `place` and `facts` are rank 0's own. Listens on `listener`, see listen_on.
  RendezvousServer(const JobPlace& place, JobFacts facts, const Secret& secret, Socket listener,
                   const RendezvousOptions& options = {});
  /// Tells the ranks that are left that rank 0 is done; while an exception unwinds they see it lost instead.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  int port() const { return port_; }
  /// Connections that were turned away because they could not show the secret in time, or were one too many.
  int64_t num_turned_away() const { return num_turned_away_; }

 private:
  struct Peer {
    Socket socket;
    FrameReader reader{kMostUnknownBytes};
    std::string server_nonce;
    Clock::time_point last_heard;
    std::optional<int> rank;  ///< once it has shown the secret
    Session session;
    bool has_given_facts = false;
    bool is_refused = false;  ///< it was told why; closing at once could take the words back
    bool is_to_close = false;
    bool is_done = false;
    std::set<std::string> wanted_keys;
  };

  void serve();
  void take_in_newcomers();
  void hear(Peer& peer);
  void hear_unknown(Peer& peer, const std::string& frame);
  void hear_rank(Peer& peer, const std::string& message);
  void admit(Peer& peer, const Join& join);
  void look_at_facts(Peer& peer, const JobFacts& facts);
  void look_at_clocks();
  void say(Peer& peer, const std::string& message);
  void say_to_all(const std::string& message);
  /// The whole job cannot start.
  void refuse_job(const std::string& why);
  void lose(Peer& peer, const std::string& what);
  std::string missing_ranks() const;

  const JobPlace place_;
  const JobFacts facts_;
  const std::string secret_;
  const RendezvousOptions options_;
  Socket listener_;
  const int port_;
  const Clock::time_point join_deadline_;
  std::list<Peer> peers_;
  std::set<int> agreed_;
  bool has_started_ = false;
  std::optional<std::string> refusal_;
  std::map<std::string, std::string> store_;
  Clock::time_point next_heartbeat_;
  std::atomic<int64_t> num_turned_away_ = 0;
  std::atomic<bool> is_closing_ = false;
  Socket wake_;        ///< written to end the thread's wait
  Socket wake_other_;  ///< the end that the thread waits on
  std::thread thread_;
};

}  // namespace litespark::dist
