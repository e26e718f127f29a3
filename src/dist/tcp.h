// SPDX-License-Identifier: Apache-2.0
// TCP sockets whose every wait has a deadline, and frames (a length, then so many bytes) of bounded size on them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace litespark::dist {

using Clock = std::chrono::steady_clock;

/// A moment so many seconds from now.
Clock::time_point in_seconds(double seconds);

/// An open descriptor, closed with this object. Non-blocking.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close();

 private:
  int descriptor_ = -1;
};

/// Why a connection failed, for a message. Not an Error: what it means is the caller's matter.
struct SocketFailure {
  std::string what;
};

/// Listens on one address, numeric or a name; port 0: any. Throws ConfigError. 0.0.0.0 and :: are refused: a rendezvous
/// listens to the network that it is for.
Socket listen_on(const std::string& address, int port);
int port_of(const Socket& socket);

/// One try. Throws SocketFailure.
Socket connect_to(const std::string& host, int port, Clock::time_point deadline);
/// The next connection that waits, if one does.
std::optional<Socket> accept_from(const Socket& listener);

/// Waits for it to become readable (or writable). False at the deadline.
bool wait_readable(const Socket& socket, Clock::time_point deadline);

/// A frame: four bytes of length, then the bytes. Throws SocketFailure at the deadline or when the peer goes.
void send_frame(const Socket& socket, std::string_view bytes, Clock::time_point deadline);

/// Puts frames together from what comes in.
class FrameReader {
 public:
  explicit FrameReader(size_t most_bytes) : most_bytes_(most_bytes) {}
  void set_most_bytes(size_t most_bytes) { most_bytes_ = most_bytes; }

  /// Takes in what has arrived, without waiting. Throws SocketFailure when the connection broke.
  void take_in(const Socket& socket);
  /// Whether the peer closed the connection in good order; frames from before may still be here.
  bool is_closed() const { return is_closed_; }
  /// The next whole frame. Throws SocketFailure for a length beyond the limit.
  std::optional<std::string> next();

 private:
  size_t most_bytes_;
  std::string bytes_;
  bool is_closed_ = false;
};

/// Waits for one frame. Throws SocketFailure at the deadline.
std::string receive_frame(const Socket& socket, FrameReader& reader, Clock::time_point deadline);

}  // namespace litespark::dist
