// SPDX-License-Identifier: Apache-2.0
#include "dist/rendezvous_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>

#include "core/error.h"
#include "dist/link.h"
#include "dist/sha256.h"

namespace litespark::dist {
namespace {

/// Frames are small: a rank that does not take one in this time has stopped.
constexpr double kSendSeconds = 2;
constexpr size_t kMostStoreBytes = size_t{64} << 20;

bool has_passed(Clock::time_point since, double seconds) {
  return Clock::now() - since > std::chrono::duration<double>(seconds);
}

}  // namespace

RendezvousServer::RendezvousServer(const JobPlace& place, JobFacts facts, const Secret& secret, Socket listener,
                                   const RendezvousOptions& options)
    : place_(place),
      facts_(std::move(facts)),
      secret_(secret.bytes()),
      options_(options),
      listener_(std::move(listener)),
      port_(port_of(listener_)),
      join_deadline_(in_seconds(options.join_seconds)),
      next_heartbeat_(Clock::now()) {
  std::array<int, 2> ends = {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw ConfigError("rendezvous", "the system gives no socket pair");
  wake_ = Socket(ends[0]);
  wake_other_ = Socket(ends[1]);
  thread_ = std::thread([this] { serve(); });
}

RendezvousServer::~RendezvousServer() {
  is_closing_ = true;
  (void)send(wake_.descriptor(), "x", 1, MSG_NOSIGNAL);
  thread_.join();
  if (std::uncaught_exceptions() == 0) say_to_all(Writer(Word::kLeave).bytes());
}

void RendezvousServer::serve() {
  const double period = std::min(options_.heartbeat_seconds / 4, options_.unknown_seconds / 4);
  while (!is_closing_) {
    std::vector<pollfd> entries = {{.fd = wake_other_.descriptor(), .events = POLLIN, .revents = 0},
                                   {.fd = listener_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Peer& peer : peers_) entries.push_back({.fd = peer.socket.descriptor(), .events = POLLIN, .revents = 0});
    poll(entries.data(), entries.size(), static_cast<int>(std::clamp(period, 0.01, 1.0) * 1000));
    size_t index = 2;
    for (Peer& peer : peers_) {
      if (entries[index++].revents != 0) hear(peer);
    }
    if (entries[1].revents != 0) take_in_newcomers();
    look_at_clocks();
    peers_.remove_if([](const Peer& peer) { return peer.is_to_close; });
  }
}

void RendezvousServer::take_in_newcomers() {
  while (std::optional<Socket> socket = accept_from(listener_)) {
    const auto num_unknown =
        static_cast<size_t>(std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.rank; }));
    if (num_unknown >= options_.most_unknown) {
      ++num_turned_away_;
      continue;
    }
    Peer& peer = peers_.emplace_back();
    peer.socket = std::move(*socket);
    peer.server_nonce = random_bytes(kNonceBytes);
    peer.last_heard = Clock::now();
    try {
      send_frame(peer.socket, peer.server_nonce, in_seconds(kSendSeconds));
    } catch (const SocketFailure&) {
      peer.is_to_close = true;
    }
  }
}

void RendezvousServer::hear(Peer& peer) {
  if (peer.is_to_close) return;
  try {
    peer.reader.take_in(peer.socket);
    while (std::optional<std::string> frame = peer.reader.next()) {
      if (peer.is_refused) continue;
      peer.rank ? hear_rank(peer, peer.session.open(*frame)) : hear_unknown(peer, *frame);
      if (peer.is_to_close) return;
    }
    if (peer.reader.is_closed()) throw SocketFailure{"closed the connection"};
  } catch (const SocketFailure& failure) {
    lose(peer, failure.what);
  } catch (const BadMessage&) {
    lose(peer, "sent a message without the right seal");
  }
}

void RendezvousServer::hear_unknown(Peer& peer, const std::string& frame) {
  const Join join = read_join(frame, peer.server_nonce, secret_);
  peer.rank = join.place.rank;
  peer.session = Session(true, join.client_nonce, peer.server_nonce, secret_);
  peer.reader.set_most_bytes(kMostKnownBytes);
  peer.last_heard = Clock::now();
  send_frame(peer.socket, proof_of_server(join.client_nonce, peer.server_nonce, secret_), in_seconds(kSendSeconds));
  admit(peer, join);
}

void RendezvousServer::admit(Peer& peer, const Join& join) {
  const auto refuse = [&](const std::string& why) {
    say(peer, Writer(Word::kRefused).text(why).bytes());
    peer.rank.reset();
    peer.is_refused = true;
  };
  if (join.place.job != place_.job || join.place.attempt != place_.attempt) {
    return refuse("this is job " + place_.job + ", attempt " + std::to_string(place_.attempt) + ", not job " +
                  join.place.job + ", attempt " + std::to_string(join.place.attempt));
  }
  if (join.place.size != place_.size) {
    const std::string why = "rank " + std::to_string(join.place.rank) + " counts " + std::to_string(join.place.size) +
                            " ranks, rank 0 counts " + std::to_string(place_.size);
    refuse_job(why);
    return refuse(why);
  }
  if (refusal_) return refuse(*refusal_);
  const bool is_taken = std::any_of(peers_.begin(), peers_.end(), [&](const Peer& other) {
    return &other != &peer && other.rank == peer.rank && !other.is_to_close;
  });
  if (is_taken) return refuse("rank " + std::to_string(join.place.rank) + " is there already");
  if (has_started_) return refuse("the job has started without this process");
}

void RendezvousServer::hear_rank(Peer& peer, const std::string& message) {
  peer.last_heard = Clock::now();
  Reader reader(message);
  switch (reader.word()) {
    case Word::kFacts: return look_at_facts(peer, read_facts(reader));
    case Word::kSet: {
      const std::string key = reader.text();
      const std::string value = reader.text();
      size_t held = key.size() + value.size();
      for (const auto& [other, text] : store_) held += other.size() + text.size();
      if (held > kMostStoreBytes) throw BadMessage();
      store_[key] = value;
      for (Peer& other : peers_) {
        if (other.wanted_keys.erase(key) > 0) say(other, Writer(Word::kValue).text(key).text(value).bytes());
      }
      return;
    }
    case Word::kGet: {
      const std::string key = reader.text();
      const auto found = store_.find(key);
      if (found != store_.end()) return say(peer, Writer(Word::kValue).text(key).text(found->second).bytes());
      peer.wanted_keys.insert(key);
      return;
    }
    case Word::kHeartbeat: return;
    case Word::kLeave: peer.is_done = true; return;
    default: throw BadMessage();
  }
}

void RendezvousServer::look_at_facts(Peer& peer, const JobFacts& facts) {
  if (peer.has_given_facts) throw BadMessage();
  peer.has_given_facts = true;
  const std::string difference = facts_difference(facts, facts_);
  if (!difference.empty())
    return refuse_job("rank " + std::to_string(*peer.rank) + " is not set up like rank 0: " + difference);
  agreed_.insert(*peer.rank);
  if (static_cast<int>(agreed_.size()) < place_.size) return;
  has_started_ = true;
  say_to_all(Writer(Word::kWelcome).bytes());
}

void RendezvousServer::look_at_clocks() {
  for (Peer& peer : peers_) {
    if (peer.is_to_close) continue;
    if (!peer.rank && has_passed(peer.last_heard, options_.unknown_seconds)) lose(peer, "showed nothing");
    if (peer.rank && !peer.is_done && has_passed(peer.last_heard, options_.heartbeat_seconds))
      lose(peer, "says nothing any more, it may be stopped");
  }
  if (!has_started_ && !refusal_ && Clock::now() > join_deadline_) {
    refuse_job("not all ranks came within " + std::to_string(static_cast<int64_t>(options_.join_seconds)) +
               " s: " + missing_ranks());
  }
  if (Clock::now() < next_heartbeat_) return;
  next_heartbeat_ = in_seconds(options_.heartbeat_seconds / 4);
  say_to_all(Writer(Word::kHeartbeat).bytes());
}

std::string RendezvousServer::missing_ranks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < place_.size; ++rank) {
    if (!agreed_.contains(rank)) missing.push_back(rank);
  }
  return late_text(missing);
}

void RendezvousServer::say(Peer& peer, const std::string& message) {
  if (peer.is_to_close) return;
  try {
    send_frame(peer.socket, peer.session.seal(message), in_seconds(kSendSeconds));
  } catch (const SocketFailure& failure) {
    lose(peer, failure.what);
  }
}

void RendezvousServer::say_to_all(const std::string& message) {
  for (Peer& peer : peers_) {
    if (peer.rank && !peer.is_done) say(peer, message);
  }
}

void RendezvousServer::refuse_job(const std::string& why) {
  if (refusal_) return;
  refusal_ = why;
  say_to_all(Writer(Word::kRefused).text(why).bytes());
}

void RendezvousServer::lose(Peer& peer, const std::string& what) {
  if (peer.is_to_close) return;
  peer.is_to_close = true;
  if (!peer.rank) {
    if (!peer.is_refused) ++num_turned_away_;
    return;
  }
  if (peer.is_done) return;
  if (!has_started_) {
    agreed_.erase(*peer.rank);  // it may come back before the job starts
    return;
  }
  say_to_all(Writer(Word::kLost).number(*peer.rank).text(what).bytes());
}

}  // namespace litespark::dist
