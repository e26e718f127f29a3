// SPDX-License-Identifier: Apache-2.0
// A TCP proxy that delays, turns bits, falls silent or resets, after counts of bytes and not of seconds, so that a
// fault comes at the same place in every run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace litespark::test {

/// Of each connection; bytes are counted from its beginning.
struct ProxyFaults {
  std::chrono::milliseconds delay{0};     ///< of everything, in both directions
  std::optional<int64_t> flip_at;         ///< a bit of this byte of what the connecting side says is turned
  std::optional<int64_t> flip_answer_at;  ///< likewise of what it hears
  std::optional<int64_t> silent_after;    ///< after so many bytes in a direction nothing passes it, and nothing closes
  std::optional<int64_t> reset_after;     ///< after so many bytes in a direction both sides see a reset
};

class FaultyProxy {
 public:
  /// Between who connects to port() of 127.0.0.1 and `target_port` there.
  FaultyProxy(const ProxyFaults& faults, int target_port);
  /// In a network namespace, given by its path: between who was led to port() and whom they meant to reach.
  FaultyProxy(const ProxyFaults& faults, const std::string& namespace_path);
  ~FaultyProxy();
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;

  int port() const { return port_; }
  /// Turned bits, silences and resets so far.
  int64_t num_faults() const { return num_faults_; }

 private:
  struct Pair {
    ~Pair();
    int near = -1;
    int far = -1;
    std::atomic<bool> is_reset = false;
  };
  struct Direction {
    int from;
    int to;
    std::optional<int64_t> flip_at;
  };

  void start(const std::string& namespace_path);
  void accept_all();
  int connect_further(int near) const;
  void pass_on(const std::shared_ptr<Pair>& pair, const Direction& direction);

  const ProxyFaults faults_;
  const int target_port_;  ///< 0: what the connection was meant for
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> is_ending_ = false;
  std::atomic<int64_t> num_faults_ = 0;
  std::list<std::shared_ptr<Pair>> pairs_;  ///< of the accepting thread, and of the destructor after it
  std::list<std::thread> threads_;          ///< likewise
  std::thread thread_;
};

}  // namespace litespark::test
