// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "dist/rendezvous.h"
#include "dist/rendezvous_server.h"
#include "support/error_text.h"

namespace litespark::dist {
namespace {

// fault:B5
TEST(RendezvousServer, ARankThatFallsSilentIsLost) {
  const RendezvousOptions patient = {.join_seconds = 20, .heartbeat_seconds = 1};
  const Secret secret = Secret::random();
  const RendezvousServer server({.job = "job", .size = 2}, {}, secret, listen_on("127.0.0.1", 0), patient);
  const RendezvousAddress address = {"127.0.0.1", server.port()};
  // A rank that joins by hand and then says nothing, as a stopped process does.
  Socket socket = connect_to("127.0.0.1", server.port(), in_seconds(10));
  FrameReader reader(kMostUnknownBytes);
  const std::string server_nonce = receive_frame(socket, reader, in_seconds(10));
  const std::string client_nonce(kNonceBytes, 'c');
  send_frame(socket, join_message({.job = "job", .rank = 1, .size = 2}, client_nonce, server_nonce, secret.bytes()),
             in_seconds(10));
  EXPECT_EQ(receive_frame(socket, reader, in_seconds(10)), proof_of_server(client_nonce, server_nonce, secret.bytes()));
  Session session(false, client_nonce, server_nonce, secret.bytes());
  send_frame(socket, session.seal(facts_text({})), in_seconds(10));
  Rendezvous other(address, {.job = "job", .rank = 0, .size = 2}, {}, secret, patient);
  EXPECT_TRUE(contains(error_text<CommError>([&] { other.get("never", in_seconds(30)); }),
                       "rank 1 says nothing any more, it may be stopped"));
}

TEST(RendezvousServer, ItsEndInGoodOrderIsNoLoss) {
  const Secret secret = Secret::random();
  auto server = std::make_unique<RendezvousServer>(JobPlace{.job = "job", .size = 1}, JobFacts{}, secret,
                                                   listen_on("127.0.0.1", 0));
  Rendezvous rank({"127.0.0.1", server->port()}, {.job = "job", .size = 1}, {}, secret);
  server.reset();
  bool was_told = false;
  rank.on_loss([&](const std::string&) { was_told = true; });
  EXPECT_THROW(rank.get("never", in_seconds(0.3)), CommError);
  rank.on_loss({});
  EXPECT_FALSE(was_told);
}

}  // namespace
}  // namespace litespark::dist
