// SPDX-License-Identifier: Apache-2.0
// Everything that changes from step to step, in one struct that lives in device memory: a captured graph stays valid
// because it only ever points here. The host writes the inputs before a step and reads the outcome after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace litespark {

/// What several ranks add up beside losses; written by the host just before the optimizer.
struct RankCounts {
  int64_t batch_tokens = 0;   ///< tokens of the step's micro-batches
  int64_t stop_requests = 0;  ///< ranks that were asked to stop
  double joules = 0;          ///< used since the last message by devices that the first rank does not see; NaN: unknown
  double seconds = 0;  ///< that this rank worked by itself in an earlier step; told to all, not summed; NaN: unknown
};

struct StepState {
  // Inputs, written by the host before each optimizer step.
  float learning_rate = 0;
  float clip_norm = 0;    ///< largest global gradient norm; 0 = no clipping
  float spike_limit = 0;  ///< a larger gradient norm skips the update; 0 = never
  uint32_t padding = 0;
  uint64_t rng_counter = 0;  ///< for stochastic rounding and dropout

  // Accumulated over the micro-batches of a step; the host writes zeros before the first.
  double loss_sum = 0;             ///< sum of token losses over supervised tokens
  double z_loss_sum = 0;           ///< sum of z-loss terms, already inside the gradient but not in loss_sum
  int64_t supervised_tokens = 0;   ///< labels that were not ignored
  int64_t bad_tokens = 0;          ///< token ids or labels outside the vocabulary: must stay 0
  double gradient_square_sum = 0;  ///< of the unnormalised gradients
  RankCounts counts;               ///< zero with one rank
  // Of 8-bit matmuls, this rank's own.
  int64_t fp8_overflows = 0;       ///< tensors with Inf or NaN that were to be quantised
  int64_t fp8_inputs = 0;          ///< elements of inputs of matmuls and attention quantised to 8 bits
  int64_t fp8_inputs_flushed = 0;  ///< of them, those that were not 0 and became 0
  int64_t fp8_gradients = 0;       ///< the same for gradients of matmul outputs
  int64_t fp8_gradients_flushed = 0;

  // Decided on the device once all gradients are there.
  float gradient_norm = 0;     ///< of the normalised gradient, before clipping
  float gradient_scale = 0;    ///< clip factor / supervised tokens: what the optimizer multiplies with
  float bias_correction1 = 0;  ///< 1 - beta1^t
  float bias_correction2 = 0;  ///< 1 - beta2^t
  uint32_t skipped = 0;        ///< 1: this step must not change any weight
  uint32_t padding2 = 0;
  double largest_copy_drift = 0;  ///< of all ranks' copy_drift, as of the last message

  // Persistent over the run, saved in checkpoints.
  int64_t optimizer_steps = 0;  ///< updates really applied (t above counts the one under way)
  int64_t skipped_steps = 0;

  /// Of parameters that each rank updates by itself: how far its copy was from the mean when MeanOfCopies last ran. The
  /// only outcome that is each rank's own.
  double copy_drift = 0;
};
static_assert(std::is_trivially_copyable_v<StepState>);

/// Inputs and accumulators: what the host writes before a step. The rest belongs to the device alone, so that a step
/// can be started before the host has seen the outcome of the one before.
inline constexpr int64_t kStepInputBytes = offsetof(StepState, gradient_norm);

}  // namespace litespark
