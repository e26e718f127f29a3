// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "model/executor.h"
#include "model/weights.h"
#include "ops/cpu/cpu_backend.h"
#include "support/error_text.h"
#include "support/faulty_backend.h"

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

TEST_F(ExecutorTest, UploadsPartsOfABatchAndNothingElse) {
  const BatchTensors& batch = executor.program().batch;
  std::vector<int32_t> ids(16, 7), labels(16, 9), back(16);
  executor.upload_batch(std::array{Executor::HostTensor{.id = batch.labels, .data = labels.data()},
                                   Executor::HostTensor{.id = batch.ids, .data = ids.data()}});
  executor.read(batch.ids, back.data(), 64);
  EXPECT_EQ(back, ids);
  executor.read(batch.labels, back.data(), 64);
  EXPECT_EQ(back, labels);
  const std::array no_batch{Executor::HostTensor{.id = executor.program().state, .data = ids.data()}};
  EXPECT_THROW(executor.upload_batch(no_batch), InternalError);
}

TEST_F(ExecutorTest, KeepsTheStepStateOnTheDevice) {
  StepState state;
  state.learning_rate = 0.25f;
  state.optimizer_steps = int64_t{1} << 40;
  executor.write_state(state);
  EXPECT_EQ(executor.read_state().learning_rate, 0.25f);
  EXPECT_EQ(executor.read_state().optimizer_steps, int64_t{1} << 40);
}

TEST_F(ExecutorTest, BeginningAStepLeavesWhatTheDeviceKeeps) {
  executor.write_state({.loss_sum = 3, .gradient_scale = 0.5f, .optimizer_steps = 7, .skipped_steps = 2});
  executor.begin_step({.learning_rate = 0.25f, .optimizer_steps = 100});
  const StepState state = executor.read_state();
  EXPECT_EQ(state.learning_rate, 0.25f);
  EXPECT_EQ(state.loss_sum, 0);
  EXPECT_EQ(state.gradient_scale, 0.5f);
  EXPECT_EQ(state.optimizer_steps, 7);
  EXPECT_EQ(state.skipped_steps, 2);
}

struct FaultyExecutorTest : testing::Test {
  test::FaultyBackend backend{make_cpu_backend({.threads = 1})};
  Executor executor{small_program(backend), backend};

  void SetUp() override {
    initialise_weights(executor, 1);
    executor.write_state({});
  }
  const TapeEntry& entry(int64_t index) const {
    return executor.program().tape(Phase::kTrainFirst)->entries()[static_cast<size_t>(index)];
  }
  int64_t num_ops() const { return std::ssize(executor.program().tape(Phase::kTrainFirst)->entries()); }
  std::string place_of(int64_t index) const {
    const TapeEntry& at = entry(index);
    return "[train_first: " + std::string(op_name(at.op)) + " of " + std::string(at.scope) +
           (at.layer >= 0 ? ", layer " + std::to_string(at.layer) : "") + "]";
  }
};

TEST_F(FaultyExecutorTest, AnErrorNamesOpScopeLayerAndPhase) {  // fault:B15
  for (int64_t index = 0; index < num_ops(); ++index) {
    backend.set_faults({.refuse_op = index});
    const std::string text = error_text<DeviceError>([&] { executor.run(Phase::kTrainFirst); });
    EXPECT_TRUE(text.starts_with(place_of(index))) << text;
    EXPECT_NE(text.find("device.debug_sync"), std::string::npos) << text;
    EXPECT_EQ(backend.planted(), 1);
  }
}

TEST_F(FaultyExecutorTest, AnErrorThatIsNoticedLateSaysWhatWasIssuedLast) {
  backend.set_faults({.fail_late_at = 3});
  executor.run(Phase::kTrainFirst);
  EXPECT_EQ(backend.planted(), 1);
  const std::string text = error_text<DeviceError>([&] { static_cast<void>(executor.read_state()); });
  EXPECT_TRUE(text.starts_with(place_of(num_ops() - 1))) << text;
  EXPECT_NE(text.find("issued last"), std::string::npos) << text;
}

TEST_F(FaultyExecutorTest, SynchronisedRunsNameTheVeryOpThatFailedSilently) {
  executor.set_debug_sync(true);
  for (int64_t index = 0; index < num_ops(); ++index) {
    backend.set_faults({.fail_late_at = index});
    const std::string text = error_text<DeviceError>([&] { executor.run(Phase::kTrainFirst); });
    EXPECT_TRUE(text.starts_with(place_of(index))) << text;
    EXPECT_EQ(text.find("may have failed"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace litespark
