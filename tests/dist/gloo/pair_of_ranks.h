// SPDX-License-Identifier: Apache-2.0
// Two ranks of a job in one process.
#pragma once

#include <array>
#include <csignal>
#include <future>
#include <string>
#include <utility>

#include "dist/rendezvous.h"
#include "dist/rendezvous_server.h"
#include "dist/secret.h"

namespace litespark::test {

/// What `make(rendezvous, secret)` makes on each of them, at the same time.
template <class Make>
auto pair_of_ranks(const Make& make) {
  std::signal(SIGPIPE, SIG_IGN);  // as the program does: who leaves last writes to a connection that is closed
  const dist::RendezvousOptions options{.join_seconds = 20, .heartbeat_seconds = 30};
  const dist::Secret secret = dist::Secret::random();
  const dist::RendezvousServer server({.job = "job", .size = 2}, {}, secret, dist::listen_on("127.0.0.1", 0), options);
  const auto form = [&](int rank) {
    dist::Rendezvous rendezvous({"127.0.0.1", server.port()}, {.job = "job", .rank = rank, .size = 2}, {}, secret,
                                options);
    return make(rendezvous, secret.bytes());
  };
  auto other = std::async(std::launch::async, [&] { return form(1); });
  auto own = form(0);
  return std::array{std::move(own), other.get()};
}

}  // namespace litespark::test
