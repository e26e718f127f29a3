// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "model/executor.h"
#include "model/weights.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark {
namespace {

Program small_program(Backend& backend) {
  const ModelConfig config{.vocab_size = 40,
                           .hidden_size = 16,
                           .intermediate_size = 24,
                           .num_hidden_layers = 2,
                           .num_attention_heads = 2,
                           .num_key_value_heads = 1,
                           .head_dim = 8,
                           .max_position_embeddings = 16};
  return make_llama_program(config, {.batch = {.num_tokens = 16, .max_documents = 2, .max_length = 16}},
                            backend.sizes());
}

/// Counts what runs, and that every op is announced before it is over.
struct CountingObserver final : OpObserver {
  int begun = 0, ended = 0;
  void before(const TapeEntry&) override { ++begun; }
  void after(const TapeEntry&) override {
    ++ended;
    EXPECT_EQ(begun, ended);
  }
};

struct ExecutorTest : testing::Test {
  std::unique_ptr<Backend> backend = make_cpu_backend({});
  Executor executor{small_program(*backend), *backend};
};

TEST_F(ExecutorTest, RunsEveryOpOfATapeAndTellsTheObserver) {
  initialise_weights(executor, 1);
  CountingObserver observer;
  executor.set_observer(&observer);
  executor.write_state({});
  executor.run(Phase::kTrainFirst);
  EXPECT_EQ(observer.ended, static_cast<int>(executor.program().tape(Phase::kTrainFirst)->entries().size()));
}

TEST_F(ExecutorTest, RefusesPhasesThatTheProgramLacks) {
  EXPECT_THROW(executor.run(Phase::kLogits), InternalError);
  EXPECT_THROW(executor.run(Phase::kTrainNext), InternalError);
}

TEST_F(ExecutorTest, CopiesWholeTensorsOnly) {
  const TensorId ids = executor.program().batch.ids;
  std::vector<int32_t> values(16, 7), back(16, 0);
  executor.write(ids, values.data(), 64);
  executor.read(ids, back.data(), 64);
  EXPECT_EQ(back, values);
  EXPECT_THROW(executor.write(ids, values.data(), 60), InternalError);
  EXPECT_THROW(executor.read(ids, back.data(), 68), InternalError);
}

TEST_F(ExecutorTest, KeepsTheStepStateOnTheDevice) {
  StepState state;
  state.learning_rate = 0.25f;
  state.optimizer_steps = int64_t{1} << 40;
  executor.write_state(state);
  EXPECT_EQ(executor.read_state().learning_rate, 0.25f);
  EXPECT_EQ(executor.read_state().optimizer_steps, int64_t{1} << 40);
}

}  // namespace
}  // namespace litespark
