// SPDX-License-Identifier: Apache-2.0
// What a step sums over ranks, as one small message: every rank decides the step from the same numbers.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

/// Doubles of one rank's message.
inline constexpr int64_t kNumStepSums = 8;

/// sums = loss_sum, z_loss_sum, supervised_tokens, bad_tokens, gradient_square_sum and RankCounts of `state`. sums
/// [kNumStepSums] f64, overwritten; counts are exact up to 2^53.
template <class T>
struct PutStepSums {
  static constexpr std::string_view kName = "put_step_sums";
  T sums, state;

  template <class F>
  auto map(F&& f) const {
    return PutStepSums<decltype(f.in("state", state))>{.sums = f.out("sums", sums), .state = f.in("state", state)};
  }
};

/// The fields that PutStepSums names, in `state`, = their sums over the rows of `sums` [R, kNumStepSums], added in row
/// order: the same bits on every rank. A NaN of one rank is a NaN on all.
template <class T>
struct TakeStepSums {
  static constexpr std::string_view kName = "take_step_sums";
  T state, sums;

  template <class F>
  auto map(F&& f) const {
    return TakeStepSums<decltype(f.in("sums", sums))>{.state = f.inout("state", state), .sums = f.in("sums", sums)};
  }
};

}  // namespace litespark::op
