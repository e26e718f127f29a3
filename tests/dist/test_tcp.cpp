// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "core/error.h"
#include "dist/tcp.h"

namespace litespark::dist {
namespace {

struct Ends {
  Socket listener = listen_on("127.0.0.1", 0);
  Socket client = connect_to("127.0.0.1", port_of(listener), in_seconds(10));
  Socket server;
  Ends() {
    wait_readable(listener, in_seconds(10));
    server = *accept_from(listener);
  }
};

TEST(Tcp, FramesArriveWholeAndInOrder) {
  Ends ends;
  const std::string large(100000, 'L');
  send_frame(ends.client, "first", in_seconds(10));
  send_frame(ends.client, "", in_seconds(10));
  send_frame(ends.client, large, in_seconds(10));
  FrameReader reader(1 << 20);
  EXPECT_EQ(receive_frame(ends.server, reader, in_seconds(10)), "first");
  EXPECT_EQ(receive_frame(ends.server, reader, in_seconds(10)), "");
  EXPECT_EQ(receive_frame(ends.server, reader, in_seconds(10)), large);
}

// fault:B11
TEST(Tcp, AHugeLengthIsRefusedBeforeItsBytesAreHeld) {
  Ends ends;
  ASSERT_EQ(send(ends.client.descriptor(), "\xff\xff\xff\xff junk", 9, 0), 9);
  FrameReader reader(4096);
  EXPECT_THROW(receive_frame(ends.server, reader, in_seconds(10)), SocketFailure);
}

TEST(Tcp, FramesFromBeforeTheEndAreStillGiven) {
  Ends ends;
  send_frame(ends.client, "last words", in_seconds(10));
  ends.client.close();
  FrameReader reader(4096);
  EXPECT_EQ(receive_frame(ends.server, reader, in_seconds(10)), "last words");
  EXPECT_THROW(receive_frame(ends.server, reader, in_seconds(10)), SocketFailure);
}

TEST(Tcp, AReceiverWhoStopsEndsASendAtItsDeadline) {
  Ends ends;
  EXPECT_THROW(send_frame(ends.client, std::string(size_t{64} << 20, 'x'), in_seconds(0.2)), SocketFailure);
}

TEST(Tcp, AWaitEndsAtItsDeadline) {
  Ends ends;
  FrameReader reader(4096);
  EXPECT_FALSE(wait_readable(ends.server, in_seconds(0.05)));
  EXPECT_THROW(receive_frame(ends.server, reader, in_seconds(0.05)), SocketFailure);
}

TEST(Tcp, DoesNotListenToEveryNetwork) {
  EXPECT_THROW(listen_on("0.0.0.0", 0), ConfigError);
  EXPECT_THROW(listen_on("::", 0), ConfigError);
  EXPECT_THROW(listen_on("no-such-host.invalid", 0), ConfigError);
}

TEST(Tcp, AClosedPortIsAFailureThatSaysSo) {
  int port = 0;
  {
    const Socket listener = listen_on("127.0.0.1", 0);
    port = port_of(listener);
  }
  EXPECT_THROW(connect_to("127.0.0.1", port, in_seconds(5)), SocketFailure);
}

}  // namespace
}  // namespace litespark::dist
