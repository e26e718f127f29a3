// SPDX-License-Identifier: Apache-2.0
// What a step sums over ranks, as one small message: every rank decides the step from the same numbers.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// Doubles of one rank's message.
inline constexpr int64_t kNumStepSums = 10;

/// Which of them is StepState::copy_drift: of all ranks' the largest counts.
inline constexpr int64_t kStepDrift = 8;
/// Which is RankCounts::seconds: stays in the rows, of every rank its own.
inline constexpr int64_t kStepSeconds = 9;

/// Whether the `index`-th of them is each rank's own: the square sum of what it owns, stop requests, joules.
constexpr bool is_own_sum(int64_t index) {
  return index == 4 || index >= 6;
}

/// What so many values come to with one more: their sum, or the larger, which is NaN where either is.
constexpr double joined_step_sum(int64_t index, double so_far, double value) {
  if (index != kStepDrift) return so_far + value;
  return so_far >= value || so_far != so_far ? so_far : value;
}

/// sums = loss_sum, z_loss_sum, supervised_tokens, bad_tokens, gradient_square_sum, RankCounts and copy_drift of
/// `state`. sums [kNumStepSums] f64, overwritten; counts are exact up to 2^53.
template <class T>
struct PutStepSums {
  static constexpr std::string_view kName = "put_step_sums";
  T sums, state;

  template <class F>
  auto map(F&& f) const {
    return PutStepSums<decltype(f.in("state", state))>{.sums = f.out("sums", sums), .state = f.in("state", state)};
  }
};

/// The fields that PutStepSums names, in `state`, but for RankCounts::seconds, = their sums over the rows of `sums` [R,
/// kNumStepSums], added in row order, but for copy_drift, whose largest is largest_copy_drift: the same bits on every
/// rank. A NaN of one rank is a NaN on all. Of every `replica_ranks` rows in a row, whose ranks saw the same tokens,
/// the first alone counts for losses and token counts.
template <class T>
struct TakeStepSums {
  static constexpr std::string_view kName = "take_step_sums";
  T state, sums;
  int replica_ranks = 1;

  template <class F>
  auto map(F&& f) const {
    return TakeStepSums<decltype(f.in("sums", sums))>{
        .state = f.inout("state", state), .sums = f.in("sums", sums), .replica_ranks = replica_ranks};
  }
};

}  // namespace litespark::op
