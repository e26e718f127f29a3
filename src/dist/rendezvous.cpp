// SPDX-License-Identifier: Apache-2.0
#include "dist/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cmath>
#include <cstring>
#include <exception>

#include "core/error.h"
#include "dist/sha256.h"

namespace litespark::dist {
namespace {

constexpr double kSendSeconds = 5;
/// The server says who is missing at its deadline; this rank gives it time to.
constexpr double kGraceSeconds = 3;
constexpr auto kRetryPeriod = std::chrono::milliseconds(50);

std::string where(const RendezvousAddress& address, const JobPlace& place) {
  return "rendezvous " + address.host + ":" + std::to_string(address.port) + ", rank " + std::to_string(place.rank);
}

}  // namespace

Rendezvous::Rendezvous(const RendezvousAddress& address, const JobPlace& place, const JobFacts& facts,
                       const Secret& secret, const RendezvousOptions& options)
    : place_(place), options_(options) {
  join(address, facts, secret.bytes());
  thread_ = std::thread([this] { listen(); });
}

Rendezvous::~Rendezvous() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  try {
    if (std::uncaught_exceptions() == 0) say(Writer(Word::kLeave).bytes());
  } catch (const CommError&) {
    // Whoever is gone already need not be told.
  }
  shutdown(socket_.descriptor(), SHUT_RDWR);
  thread_.join();
}

void Rendezvous::join(const RendezvousAddress& address, const JobFacts& facts, const std::string& secret) {
  const auto deadline = in_seconds(options_.join_seconds + kGraceSeconds);
  std::string reason;
  while (!try_to_join(address, facts, secret, deadline, reason)) {
    if (Clock::now() > deadline)
      throw CommError(where(address, place_),
                      "nobody answers: " + reason + " (" + std::to_string(std::llround(options_.join_seconds)) + " s)");
    std::this_thread::sleep_for(kRetryPeriod);
  }
}

bool Rendezvous::try_to_join(const RendezvousAddress& address, const JobFacts& facts, const std::string& secret,
                             Clock::time_point deadline, std::string& reason) {
  std::string server_nonce;
  FrameReader reader(kMostUnknownBytes);
  try {
    socket_ = connect_to(address.host, address.port, deadline);
    server_nonce = receive_frame(socket_, reader, deadline);
  } catch (const SocketFailure& failure) {
    reason = failure.what;
    return false;
  }
  const std::string client_nonce = random_bytes(kNonceBytes);
  std::string proof;
  try {
    send_frame(socket_, join_message(place_, client_nonce, server_nonce, secret), deadline);
    proof = receive_frame(socket_, reader, deadline);
  } catch (const SocketFailure& failure) {
    throw ConfigError(where(address, place_), "the server " + failure.what + " instead of an answer",
                      "this rank's secret", "the job's secret");
  }
  if (!is_equal_in_constant_time(proof, proof_of_server(client_nonce, server_nonce, secret)))
    throw ConfigError(where(address, place_), "who answers does not know the job's secret");
  session_ = Session(false, client_nonce, server_nonce, secret);
  reader_ = reader;
  reader_.set_most_bytes(kMostKnownBytes);
  say(facts_text(facts));
  await_welcome(deadline);
  return true;
}

void Rendezvous::await_welcome(Clock::time_point deadline) {
  const std::string here = "rendezvous, rank " + std::to_string(place_.rank);
  auto next_heartbeat = Clock::now();
  try {
    while (true) {
      if (Clock::now() > deadline) throw CommError(here, "the server does not start the job");
      // A rank that waits for others says that it still does.
      if (Clock::now() >= next_heartbeat) {
        say(Writer(Word::kHeartbeat).bytes());
        next_heartbeat = in_seconds(options_.heartbeat_seconds / 4);
      }
      reader_.take_in(socket_);
      std::optional<std::string> frame = reader_.next();
      if (!frame) {
        if (reader_.is_closed()) throw SocketFailure{"closed the connection"};
        wait_readable(socket_, std::min(deadline, next_heartbeat));
        continue;
      }
      const std::string message = session_.open(*frame);
      Reader reader(message);
      const Word word = reader.word();
      if (word == Word::kRefused) {
        const std::string why = reader.text();
        // Who is late may come at the next attempt; who is different will not.
        if (why.starts_with("not all ranks")) throw CommError(here, why);
        throw ConfigError(here, why);
      }
      if (word == Word::kWelcome) break;
    }
  } catch (const SocketFailure& failure) {
    throw CommError(here, "the server (rank 0) " + failure.what);
  } catch (const BadMessage&) {
    throw CommError(here, "the server's message has not the right seal");
  }
  last_heard_ = Clock::now();
}

std::string Rendezvous::own_address() const {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (getsockname(socket_.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw CommError("rendezvous", std::string("this rank has no address: ") + std::strerror(errno));
  const void* bytes = address.ss_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(&address)->sin_addr)
                          : static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr);
  inet_ntop(address.ss_family, bytes, text.data(), static_cast<socklen_t>(text.size()));
  return text.data();
}

void Rendezvous::set(const std::string& key, const std::string& value) {
  say(Writer(Word::kSet).text(key).text(value).bytes());
}

std::string Rendezvous::get(const std::string& key, Clock::time_point deadline) {
  say(Writer(Word::kGet).text(key).bytes());
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return loss_ || values_.contains(key); });
  const std::string here = "rendezvous, rank " + std::to_string(place_.rank);
  if (const auto found = values_.find(key); found != values_.end()) return found->second;
  if (loss_) throw CommError(here, *loss_);
  throw CommError(here, "nobody said " + key + " before the deadline");
}

void Rendezvous::on_loss(std::function<void(const std::string& what)> callback) {
  const std::lock_guard callback_lock(callback_mutex_);
  on_loss_ = std::move(callback);
  std::optional<std::string> loss;
  {
    const std::lock_guard lock(mutex_);
    loss = loss_;
  }
  if (loss && on_loss_) std::exchange(on_loss_, nullptr)(*loss);
}

void Rendezvous::listen() {
  auto next_heartbeat = Clock::now();
  const double period = options_.heartbeat_seconds / 4;
  try {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (is_closing_ || loss_) return;
      }
      if (Clock::now() >= next_heartbeat) {
        say(Writer(Word::kHeartbeat).bytes());
        next_heartbeat = in_seconds(period);
      }
      if (wait_readable(socket_, next_heartbeat)) reader_.take_in(socket_);
      while (std::optional<std::string> frame = reader_.next()) hear(session_.open(*frame));
      if (reader_.is_closed()) throw SocketFailure{"closed the connection"};
      if (Clock::now() - last_heard_ > std::chrono::duration<double>(options_.heartbeat_seconds))
        throw SocketFailure{"says nothing any more, it may be stopped"};
    }
  } catch (const SocketFailure& failure) {
    lose("rank 0 " + failure.what);
  } catch (const BadMessage&) {
    lose("rank 0 sent a message without the right seal");
  } catch (const CommError& error) {
    lose(error.what());
  }
}

/// A server that leaves in good order says so before it closes; a heartbeat on its way may break the connection first.
void Rendezvous::hear_last_words() {
  try {
    reader_.take_in(socket_);
    while (std::optional<std::string> frame = reader_.next()) {
      const std::string message = session_.open(*frame);
      if (Reader(message).word() == Word::kLeave) hear(message);
    }
  } catch (const SocketFailure&) {
    return;
  } catch (const BadMessage&) {
    return;
  }
}

void Rendezvous::hear(const std::string& message) {
  last_heard_ = Clock::now();
  Reader reader(message);
  switch (reader.word()) {
    case Word::kValue: {
      std::string key = reader.text();
      std::string value = reader.text();
      const std::lock_guard lock(mutex_);
      values_.insert_or_assign(std::move(key), std::move(value));
      break;
    }
    case Word::kLost: {
      const int64_t rank = reader.number();
      return lose("rank " + std::to_string(rank) + " " + reader.text());
    }
    case Word::kLeave: {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
      break;
    }
    default: return;
  }
  changed_.notify_all();
}

void Rendezvous::say(const std::string& message) {
  const std::lock_guard lock(send_mutex_);
  try {
    send_frame(socket_, session_.seal(message), in_seconds(kSendSeconds));
  } catch (const SocketFailure& failure) {
    throw CommError("rendezvous, rank " + std::to_string(place_.rank), "rank 0 " + failure.what);
  }
}

void Rendezvous::lose(const std::string& what) {
  hear_last_words();
  {
    const std::lock_guard lock(mutex_);
    if (is_closing_ || loss_) return;
    loss_ = what;
  }
  changed_.notify_all();
  const std::lock_guard callback_lock(callback_mutex_);
  if (on_loss_) std::exchange(on_loss_, nullptr)(what);
}

int host_number(Rendezvous& rendezvous, Clock::time_point deadline) {
  const auto key = [](int rank) { return "address/" + std::to_string(rank); };
  const std::string own = rendezvous.own_address();
  rendezvous.set(key(rendezvous.place().rank), own);
  int first = 0;
  while (first < rendezvous.place().rank && rendezvous.get(key(first), deadline) != own) ++first;
  return first;
}

}  // namespace litespark::dist
