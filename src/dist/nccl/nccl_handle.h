// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator, from its forming to its end, and the thread that watches it. NCCL itself never gives up on a
// peer that is alive and silent, and the thread that made a call may sit in a wait for the device: so another one looks
// at errors and deadlines, and aborts.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dist/comm_call.h"
#include "dist/nccl/nccl_communicator.h"
#include "dist/nccl/nccl_library.h"

namespace litespark::dist {

class NcclHandle {
 public:
  /// A call on the comm stream: it begins when `ready` and the call before it are done.
  struct WatchedCall {
    CallLabel label;
    cudaEvent_t ready = nullptr;
    cudaEvent_t done = nullptr;
  };
  /// Calls in flight at most; more wait in `watch`.
  static constexpr size_t kMostWatched = 256;

  /// Forms the communicator and starts watching. The device is current.
  NcclHandle(const NcclOptions& options, CallPlace place);
  /// Destroys the communicator when all went well, and aborts it when not.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Makes library calls and returns when NCCL has put them on the stream. Throws CommError.
  void launch(const CallLabel& label, const std::function<ncclResult_t(ncclComm_t)>& body);
  /// Watches a call that is on the stream now.
  void watch(const WatchedCall& call);
  /// Watches a call in a CUDA graph: each replay writes `number` into begun_word() and later into done_word().
  void watch_replays(const CallLabel& label);
  uint64_t* begun_word() const { return words_; }
  uint64_t* done_word() const { return words_ + 1; }

  /// Throws the failure if there is one.
  void check_alive();
  /// Returns when `done` is; throws the failure if that comes first.
  void wait_on_host(cudaEvent_t done);
  /// Keeps the first failure and aborts the communicator. Any thread.
  void fail(const std::string& what);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Pending {
    WatchedCall call;
    std::optional<Time> begun;
  };

  void form(const NcclOptions& options);
  ncclResult_t call_beside(const std::function<ncclResult_t()>& call, Time deadline);
  ncclResult_t settle(ncclResult_t state, Time deadline);
  std::string error_text(ncclResult_t status);
  void abort_communicator();
  void close();
  void watch_loop();
  /// Why the communicator must end, if it must. Both hold the lock.
  std::optional<std::string> look_at_calls(Time now);
  std::optional<std::string> look_at_launch(Time now) const;
  std::optional<std::string> look_at_replays(Time now);
  std::optional<std::string> look_at_library();
  std::string late_call_text(const CallLabel& label) const;
  Time deadline_from_now() const;

  const NcclLibrary& library_;
  const CallPlace place_;
  const int device_;
  const double timeout_seconds_;
  const bool is_blocking_;

  /// Library calls on comm_; held for moments only, except inside NCCL.
  std::timed_mutex library_mutex_;
  ncclComm_t comm_ = nullptr;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::pair<CallLabel, Time>> launching_;  ///< inside NCCL since then
  std::deque<Pending> pending_;
  std::map<uint64_t, CallLabel> replayed_;
  uint64_t seen_begun_ = 0;
  Time seen_begun_at_;
  std::optional<std::string> failure_;
  std::atomic<bool> has_failed_ = false;
  bool is_closing_ = false;
  uint64_t* words_ = nullptr;  ///< page-locked: the last replayed call that began, and the last that was done
  std::thread watcher_;
};

}  // namespace litespark::dist
