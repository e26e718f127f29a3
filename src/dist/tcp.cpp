// SPDX-License-Identifier: Apache-2.0
#include "dist/tcp.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/error.h"

namespace litespark::dist {
namespace {

constexpr size_t kLengthBytes = 4;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, int port, std::string& reason) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (status != 0) reason = gai_strerror(status);
  return {status == 0 ? found : nullptr, &freeaddrinfo};
}

bool is_any_address(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof(v4));
    return v4.sin_addr.s_addr == htonl(INADDR_ANY);
  }
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof(v6));
  return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

/// Rounded up, so that a wait does not spin before its deadline.
int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3600 * 1000));
}

bool wait_for(const Socket& socket, short events, Clock::time_point deadline) {
  while (true) {
    pollfd entry = {.fd = socket.descriptor(), .events = events, .revents = 0};
    const int ready = poll(&entry, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0 && Clock::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) throw SocketFailure{std::strerror(errno)};
  }
}

Socket make_socket(const addrinfo& address) {
  return Socket(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void set_option(const Socket& socket, int level, int option) {
  const int on = 1;
  setsockopt(socket.descriptor(), level, option, &on, sizeof(on));
}

}  // namespace

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Socket listen_on(const std::string& address, int port) {
  const std::string where = address + ":" + std::to_string(port);
  std::string reason = "no such address";
  const Addresses addresses = resolve(address, port, reason);
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    if (is_any_address(entry->ai_addr))
      throw ConfigError(where, "the rendezvous would listen to every network", address, "the address of one interface");
    Socket socket = make_socket(*entry);
    if (!socket.is_open()) continue;
    set_option(socket, SOL_SOCKET, SO_REUSEADDR);
    if (bind(socket.descriptor(), entry->ai_addr, entry->ai_addrlen) == 0 && listen(socket.descriptor(), 128) == 0)
      return socket;
    reason = std::strerror(errno);
  }
  throw ConfigError(where, "the rendezvous cannot listen there: " + reason);
}

int port_of(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw ConfigError("rendezvous", std::string("no port: ") + std::strerror(errno));
  in_port_t port = 0;
  const size_t offset =
      address.ss_family == AF_INET ? offsetof(sockaddr_in, sin_port) : offsetof(sockaddr_in6, sin6_port);
  std::memcpy(&port, reinterpret_cast<const char*>(&address) + offset, sizeof(port));
  return ntohs(port);
}

Socket connect_to(const std::string& host, int port, Clock::time_point deadline) {
  std::string reason = "no such address";
  const Addresses addresses = resolve(host, port, reason);
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    Socket socket = make_socket(*entry);
    if (!socket.is_open()) continue;
    set_option(socket, IPPROTO_TCP, TCP_NODELAY);
    int error = connect(socket.descriptor(), entry->ai_addr, entry->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof(error);
      if (!wait_for(socket, POLLOUT, deadline)) throw SocketFailure{"no answer before the deadline"};
      getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0) return socket;
    reason = std::strerror(error);
  }
  throw SocketFailure{reason};
}

std::optional<Socket> accept_from(const Socket& listener) {
  Socket socket(accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.is_open()) return std::nullopt;
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

bool wait_readable(const Socket& socket, Clock::time_point deadline) {
  return wait_for(socket, POLLIN, deadline);
}

void send_frame(const Socket& socket, std::string_view bytes, Clock::time_point deadline) {
  std::string frame;
  for (int shift = 24; shift >= 0; shift -= 8) frame.push_back(static_cast<char>((bytes.size() >> shift) & 0xff));
  frame.append(bytes);
  size_t sent = 0;
  while (sent < frame.size()) {
    const ssize_t count = send(socket.descriptor(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<size_t>(count);
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!wait_for(socket, POLLOUT, deadline)) throw SocketFailure{"does not take what is sent"};
    } else if (errno != EINTR) {
      throw SocketFailure{std::strerror(errno)};
    }
  }
}

void FrameReader::take_in(const Socket& socket) {
  std::array<char, 16384> part;
  // Not more than one frame beyond its limit is held, whatever the peer sends.
  while (bytes_.size() <= most_bytes_ + kLengthBytes) {
    const ssize_t count = recv(socket.descriptor(), part.data(), part.size(), 0);
    if (count > 0) {
      bytes_.append(part.data(), static_cast<size_t>(count));
    } else if (count == 0) {
      is_closed_ = true;
      return;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      throw SocketFailure{std::strerror(errno)};
    }
  }
}

std::optional<std::string> FrameReader::next() {
  if (bytes_.size() < kLengthBytes) return std::nullopt;
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length = length << 8 | static_cast<unsigned char>(bytes_[i]);
  if (length > most_bytes_) throw SocketFailure{"sent a frame of " + std::to_string(length) + " bytes"};
  if (bytes_.size() < kLengthBytes + length) return std::nullopt;
  std::string frame = bytes_.substr(kLengthBytes, length);
  bytes_.erase(0, kLengthBytes + length);
  return frame;
}

std::string receive_frame(const Socket& socket, FrameReader& reader, Clock::time_point deadline) {
  while (true) {
    if (std::optional<std::string> frame = reader.next()) return *frame;
    if (reader.is_closed()) throw SocketFailure{"closed the connection"};
    if (!wait_readable(socket, deadline)) throw SocketFailure{"no word before the deadline"};
    reader.take_in(socket);
  }
}

}  // namespace litespark::dist
