// SPDX-License-Identifier: Apache-2.0
#include "support/faulty_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <stdexcept>
#include <vector>

namespace litespark::test {
namespace {

constexpr int kPollMilliseconds = 50;

sockaddr_in address_of(uint32_t host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(host);
  return address;
}

int listening_socket(uint32_t host) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = address_of(host, 0);
  if (listener < 0 || bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 64) != 0)
    throw std::runtime_error("the proxy cannot listen");
  return listener;
}

bool is_readable(int descriptor) {
  pollfd entry = {.fd = descriptor, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, kPollMilliseconds) > 0;
}

bool send_all(int to, const char* data, ssize_t count) {
  while (count > 0) {
    const ssize_t sent = send(to, data, static_cast<size_t>(count), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    count -= sent;
  }
  return true;
}

void close_with_reset(int descriptor) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

}  // namespace

FaultyProxy::Pair::~Pair() {
  for (const int descriptor : {near, far}) {
    if (is_reset) close_with_reset(descriptor);
    if (descriptor >= 0) close(descriptor);
  }
}

FaultyProxy::FaultyProxy(const ProxyFaults& faults, int target_port) : faults_(faults), target_port_(target_port) {
  start({});
}

FaultyProxy::FaultyProxy(const ProxyFaults& faults, const std::string& namespace_path)
    : faults_(faults), target_port_(0) {
  start(namespace_path);
}

FaultyProxy::~FaultyProxy() {
  is_ending_ = true;
  thread_.join();
  for (const auto& pair : pairs_) {
    shutdown(pair->near, SHUT_RDWR);
    shutdown(pair->far, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  close(listener_);
}

void FaultyProxy::start(const std::string& namespace_path) {
  std::promise<int> listening;
  auto port = listening.get_future();
  thread_ = std::thread([this, namespace_path, &listening] {
    try {
      if (!namespace_path.empty()) {  // of this thread, and of those that it starts
        const int space = open(namespace_path.c_str(), O_RDONLY | O_CLOEXEC);
        if (space < 0 || setns(space, CLONE_NEWNET) != 0) throw std::runtime_error("no namespace " + namespace_path);
        close(space);
      }
      listener_ = listening_socket(target_port_ == 0 ? INADDR_ANY : INADDR_LOOPBACK);
      sockaddr_in own = {};
      socklen_t size = sizeof(own);
      getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &size);
      listening.set_value(ntohs(own.sin_port));
    } catch (const std::exception&) {
      listening.set_exception(std::current_exception());
      return;
    }
    accept_all();
  });
  try {
    port_ = port.get();
  } catch (const std::exception&) {
    thread_.join();
    throw;
  }
}

void FaultyProxy::accept_all() {
  while (!is_ending_) {
    if (!is_readable(listener_)) continue;
    const int near = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (near < 0) continue;
    const int far = connect_further(near);
    if (far < 0) {
      close(near);
      continue;
    }
    for (const int descriptor : {near, far}) {
      const int is_on = 1;
      setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &is_on, sizeof(is_on));
    }
    const auto& pair = pairs_.emplace_back(std::make_shared<Pair>());
    pair->near = near;
    pair->far = far;
    threads_.emplace_back([this, pair] { pass_on(pair, {pair->near, pair->far, faults_.flip_at}); });
    threads_.emplace_back([this, pair] { pass_on(pair, {pair->far, pair->near, faults_.flip_answer_at}); });
  }
}

int FaultyProxy::connect_further(int near) const {
  sockaddr_in target = address_of(INADDR_LOOPBACK, target_port_);
  socklen_t size = sizeof(target);
  if (target_port_ == 0 && getsockopt(near, SOL_IP, SO_ORIGINAL_DST, &target, &size) != 0) return -1;
  const int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (far >= 0 && connect(far, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0) {
    close(far);
    return -1;
  }
  return far;
}

void FaultyProxy::pass_on(const std::shared_ptr<Pair>& pair, const Direction& direction) {
  std::vector<char> bytes(1 << 16);
  int64_t passed = 0;
  while (!is_ending_ && !pair->is_reset) {
    if (!is_readable(direction.from)) continue;
    const ssize_t count = recv(direction.from, bytes.data(), bytes.size(), 0);
    if (count <= 0) break;
    const int64_t end = passed + count;
    if (direction.flip_at && *direction.flip_at >= passed && *direction.flip_at < end) {
      bytes[static_cast<size_t>(*direction.flip_at - passed)] ^= 1;
      ++num_faults_;
    }
    if (faults_.reset_after && end > *faults_.reset_after) {
      ++num_faults_;
      pair->is_reset = true;
      for (const int descriptor : {pair->near, pair->far}) {
        close_with_reset(descriptor);
        const sockaddr nobody = {.sa_family = AF_UNSPEC, .sa_data = {}};  // ends the connection by a reset at once
        connect(descriptor, &nobody, sizeof(nobody));
      }
      return;
    }
    if (faults_.silent_after && end > *faults_.silent_after) {
      if (passed <= *faults_.silent_after) ++num_faults_;
    } else {
      std::this_thread::sleep_for(faults_.delay);
      if (!send_all(direction.to, bytes.data(), count)) break;
    }
    passed = end;
  }
  if (!faults_.silent_after) shutdown(direction.to, SHUT_WR);
}

}  // namespace litespark::test
