// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy on a chunk of rows, and the sums that a step keeps.
#pragma once

#include <cstdint>
#include <string_view>

namespace litespark::op {

inline constexpr int32_t kIgnoredLabel = -100;

/// losses[n] = log_sum_exp(logits[n]) - logits[n][labels[n]]; 0 where the label is kIgnoredLabel.
/// With `write_gradient` the logits are overwritten by d(sum of losses + z terms)/d logits, unnormalised (0 in ignored
/// rows); z term = z_coefficient * log_sum_exp^2. Without it the logits stay as they are.
/// losses [N] f32, overwritten; log_sum_exp [N] f32, overwritten, optional; logits [N, V]; labels [N] i32.
/// A label outside [0, V) counts as bad in `state` and is treated as ignored.
template <class T>
struct CrossEntropy {
  static constexpr std::string_view kName = "cross_entropy";
  T losses, log_sum_exp, logits, labels, state;
  float z_coefficient = 0;
  bool write_gradient = true;

  template <class F>
  auto map(F&& f) const {
    return CrossEntropy<decltype(f.in("labels", labels))>{
        .losses = f.out("losses", losses),
        .log_sum_exp = f.out("log_sum_exp", log_sum_exp),
        .logits = write_gradient ? f.inout("logits", logits) : f.in("logits", logits),
        .labels = f.in("labels", labels),
        .state = f.inout("state", state),
        .z_coefficient = z_coefficient,
        .write_gradient = write_gradient};
  }
};

inline constexpr int64_t kRowStatistics = 3;

/// What one rank knows of rows whose vocabulary is cut among several: it has the logits of ids [first_id, first_id +
/// columns). statistics[n] = the largest of them, the sum of exp(logit - the largest), and the logit of labels[n], or 0
/// where it is not among them. statistics [N, kRowStatistics] f32, overwritten; logits [N, V'], V' >= columns: what is
/// behind them is padding; labels [N] i32.
template <class T>
struct CrossEntropyPart {
  static constexpr std::string_view kName = "cross_entropy_part";
  T statistics, logits, labels;
  int64_t first_id = 0;
  int64_t columns = 0;

  template <class F>
  auto map(F&& f) const {
    return CrossEntropyPart<decltype(f.in("labels", labels))>{.statistics = f.out("statistics", statistics),
                                                              .logits = f.in("logits", logits),
                                                              .labels = f.in("labels", labels),
                                                              .first_id = first_id,
                                                              .columns = columns};
  }
};

/// CrossEntropy from the statistics of all ranks [R, N, kRowStatistics], merged in rank order: the same losses on every
/// rank. The gradient is that of this rank's logits; padding becomes 0. `vocab`: of all ranks together.
template <class T>
struct CrossEntropyJoined {
  static constexpr std::string_view kName = "cross_entropy_joined";
  T losses, log_sum_exp, logits, labels, statistics, state;
  int64_t ranks = 1;  ///< R
  int64_t first_id = 0;
  int64_t columns = 0;
  int64_t vocab = 0;
  float z_coefficient = 0;
  bool write_gradient = true;

  template <class F>
  auto map(F&& f) const {
    return CrossEntropyJoined<decltype(f.in("labels", labels))>{
        .losses = f.out("losses", losses),
        .log_sum_exp = f.out("log_sum_exp", log_sum_exp),
        .logits = write_gradient ? f.inout("logits", logits) : f.in("logits", logits),
        .labels = f.in("labels", labels),
        .statistics = f.in("statistics", statistics),
        .state = f.inout("state", state),
        .ranks = ranks,
        .first_id = first_id,
        .columns = columns,
        .vocab = vocab,
        .z_coefficient = z_coefficient,
        .write_gradient = write_gradient};
  }
};

/// state.loss_sum += sum of losses (double, fixed order); state.supervised_tokens += count of scored labels;
/// state.z_loss_sum += z_coefficient * sum of log_sum_exp^2 over scored rows (when log_sum_exp is present).
template <class T>
struct LossReduce {
  static constexpr std::string_view kName = "loss_reduce";
  T state, losses, log_sum_exp, labels;
  float z_coefficient = 0;

  template <class F>
  auto map(F&& f) const {
    return LossReduce<decltype(f.in("losses", losses))>{.state = f.inout("state", state),
                                                        .losses = f.in("losses", losses),
                                                        .log_sum_exp = f.in("log_sum_exp", log_sum_exp),
                                                        .labels = f.in("labels", labels),
                                                        .z_coefficient = z_coefficient};
  }
};

}  // namespace litespark::op
