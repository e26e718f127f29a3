// SPDX-License-Identifier: Apache-2.0
// A step's message, on any backend: what goes in comes out summed, and nothing else of the state changes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/step_state.h"
#include "ops/backend.h"

namespace litespark::test {

inline StepState state_of_rank(int rank) {
  StepState state{.learning_rate = 0.5f, .clip_norm = 2.0f, .rng_counter = 7};
  state.loss_sum = 1.0 / 3.0 * (rank + 1);
  state.z_loss_sum = 0.1 * (rank + 1);
  state.supervised_tokens = 1000 + rank;
  state.bad_tokens = rank;
  state.gradient_square_sum = 1e-3 / (rank + 1);
  state.counts = {
      .batch_tokens = 2000 + rank, .stop_requests = rank == 1 ? 1 : 0, .joules = 0.25 * rank, .seconds = 0.5 + rank};
  state.gradient_norm = 3.0f;
  state.copy_drift = rank == 1 ? 0.5 : 0.25;
  state.optimizer_steps = 11;
  return state;
}

/// What rank 0 holds after `states` have told each other.
inline StepState sum_on(Backend& backend, const std::vector<StepState>& states, int replica_ranks = 1) {
  const auto ranks = static_cast<int64_t>(states.size());
  const auto state = backend.allocate(sizeof(StepState));
  const auto sums = backend.allocate(ranks * op::kNumStepSums * 8);
  const Tensor state_tensor{.data = state->data(),
                            .dtype = DType::kU8,
                            .shape = {static_cast<int64_t>(sizeof(StepState))},
                            .device = backend.device()};
  for (int64_t rank = ranks; rank-- > 0;) {
    backend.copy_to_device(state->data(), &states[static_cast<size_t>(rank)], sizeof(StepState));
    const op::PutStepSums<Tensor> put{.sums = {.data = static_cast<double*>(sums->data()) + rank * op::kNumStepSums,
                                               .dtype = DType::kF64,
                                               .shape = {op::kNumStepSums},
                                               .device = backend.device()},
                                      .state = state_tensor};
    validate(put);
    backend.run(put);
  }
  const op::TakeStepSums<Tensor> take{.state = state_tensor,
                                      .sums = {.data = sums->data(),
                                               .dtype = DType::kF64,
                                               .shape = {ranks, op::kNumStepSums},
                                               .device = backend.device()},
                                      .replica_ranks = replica_ranks};
  validate(take);
  backend.run(take);
  StepState result;
  backend.copy_to_host(&result, state->data(), sizeof(result));
  return result;
}

inline void expect_sums_in_rank_order(Backend& backend) {
  const std::vector<StepState> states = {state_of_rank(0), state_of_rank(1), state_of_rank(2)};
  const StepState found = sum_on(backend, states);
  EXPECT_EQ(found.loss_sum, 0.0 + states[0].loss_sum + states[1].loss_sum + states[2].loss_sum);
  EXPECT_EQ(found.z_loss_sum, 0.0 + states[0].z_loss_sum + states[1].z_loss_sum + states[2].z_loss_sum);
  EXPECT_EQ(found.gradient_square_sum,
            0.0 + states[0].gradient_square_sum + states[1].gradient_square_sum + states[2].gradient_square_sum);
  EXPECT_EQ(found.supervised_tokens, 3003);
  EXPECT_EQ(found.bad_tokens, 3);
  EXPECT_EQ(found.counts.batch_tokens, 6003);
  EXPECT_EQ(found.counts.stop_requests, 1);
  EXPECT_EQ(found.counts.joules, 0.75);
  EXPECT_EQ(found.largest_copy_drift, 0.5);
  EXPECT_EQ(found.counts.seconds, 0.5) << "its own";
  StepState rest = found;
  rest.loss_sum = states[0].loss_sum;
  rest.z_loss_sum = states[0].z_loss_sum;
  rest.gradient_square_sum = states[0].gradient_square_sum;
  rest.supervised_tokens = states[0].supervised_tokens;
  rest.bad_tokens = states[0].bad_tokens;
  rest.counts = states[0].counts;
  rest.largest_copy_drift = states[0].largest_copy_drift;
  EXPECT_EQ(std::memcmp(&rest, states.data(), sizeof(rest)), 0);
}

/// Two replicas of two ranks: what both ranks of a replica saw counts once, what each has of its own twice.
inline void expect_replicas_to_count_once(Backend& backend) {
  std::vector<StepState> states;
  for (int rank = 0; rank < 4; ++rank) states.push_back(state_of_rank(rank));
  const StepState found = sum_on(backend, states, 2);
  EXPECT_EQ(found.loss_sum, 0.0 + states[0].loss_sum + states[2].loss_sum);
  EXPECT_EQ(found.z_loss_sum, 0.0 + states[0].z_loss_sum + states[2].z_loss_sum);
  EXPECT_EQ(found.supervised_tokens, 2002);
  EXPECT_EQ(found.bad_tokens, 2);
  EXPECT_EQ(found.counts.batch_tokens, 4002);
  double squares = 0;
  for (const StepState& state : states) squares += state.gradient_square_sum;
  EXPECT_EQ(found.gradient_square_sum, squares);
  EXPECT_EQ(found.counts.stop_requests, 1);
  EXPECT_EQ(found.counts.joules, 1.5);
}

inline void expect_a_nan_to_reach_all(Backend& backend) {
  std::vector<StepState> states = {state_of_rank(0), state_of_rank(1)};
  states[1].gradient_square_sum = std::numeric_limits<double>::quiet_NaN();
  states[1].loss_sum = std::numeric_limits<double>::infinity();
  states[0].copy_drift = std::numeric_limits<double>::quiet_NaN();
  const StepState found = sum_on(backend, states);
  EXPECT_TRUE(std::isnan(found.largest_copy_drift));
  EXPECT_TRUE(std::isnan(found.gradient_square_sum));
  EXPECT_TRUE(std::isinf(found.loss_sum));
}

}  // namespace litespark::test
