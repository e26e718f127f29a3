// SPDX-License-Identifier: Apache-2.0
// The last calls of a rank and when each was issued, made and waited for. Beside those of the other ranks it tells what
// a step waited for, a link or a rank that came late, and what was under way when a run failed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "dist/comm_call.h"

namespace litespark::dist {

/// Moments are seconds since 1970, by the clock of this host; NaN: not yet.
struct RecordedCall {
  static constexpr double kNever = std::numeric_limits<double>::quiet_NaN();

  int64_t number = 0;  ///< counts the calls of a communicator from 1; 0: none
  int64_t step = 0;
  std::string what;   ///< "all_reduce (sum) of f32 [10]", "exchange to rank 2 of f32 [10], from rank 0 of f32 [10]"
  std::string group;  ///< "ranks 1 and 3"; empty: all
  int64_t bytes = 0;  ///< of the whole, of an exchange the longer half
  size_t lane = 0;
  double issued = kNever;
  double begun = kNever;
  double ended = kNever;
  double wait_begun = kNever;  ///< of the last wait for it
  double wait_ended = kNever;
};

/// Any thread may use it.
class CallRecord {
 public:
  /// Keeps the last `capacity` calls, at least one.
  explicit CallRecord(size_t capacity);

  /// `call.number` is one more than that of the call before.
  void add(const CommCall& call, const CallPlace& place, size_t lane);
  /// Moments of the call with that number; nothing where it is not kept any more.
  void begin(int64_t number) { mark(number, &RecordedCall::begun); }
  void end(int64_t number) { mark(number, &RecordedCall::ended); }
  void begin_wait(int64_t number) { mark(number, &RecordedCall::wait_begun); }
  void end_wait(int64_t number) { mark(number, &RecordedCall::wait_ended); }

  /// Oldest first.
  std::vector<RecordedCall> calls() const;

 private:
  void mark(int64_t number, double RecordedCall::*moment);
  /// By the steady clock, put on the calendar once: differences are exact.
  double now() const;

  const std::chrono::duration<double> steady_to_calendar_;
  mutable std::mutex mutex_;
  std::vector<RecordedCall> ring_;  ///< call n stands at n % size
};

}  // namespace litespark::dist
