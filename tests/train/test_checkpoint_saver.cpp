// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "io/file_system.h"
#include "io/sealed_folder.h"
#include "support/failing_file_system.h"
#include "support/faulty_backend.h"
#include "support/temporary_folder.h"
#include "train/checkpoint_saver.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

/// Writes take their time, so that a save overlaps the steps after it; or fail.
class SlowFileSystem final : public FileSystem {
 public:
  std::atomic<int> writes = 0;
  std::atomic<bool> is_full = false;

  ssize_t write(int descriptor, const void* data, size_t bytes) override {
    ++writes;
    if (is_full) {
      errno = ENOSPC;
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return FileSystem::write(descriptor, data, bytes);
  }
};

struct CheckpointSaverTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path folder = scratch.path() / "checkpoint_saver_test";
  ModelConfig config = tiny_model();
  ParamTable params = make_param_table(config);
  CheckpointContext context{.config = config, .params = params, .identity = {{"seed", "1"}}};

  void SetUp() override { fs::remove_all(folder); }
  std::unique_ptr<TinyRun> make_run() const {
    return std::make_unique<TinyRun>(config, tiny_program_options(),
                                     std::vector{random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1)},
                                     tiny_trainer_options(40));
  }
};

TEST_F(CheckpointSaverTest, SavesOneExactStepWhileTrainingGoesOn) {  // fault:A12, fault:A11
  const auto run = make_run();
  CheckpointStore store(folder);
  std::vector<std::vector<float>> weights_at;
  SlowFileSystem slow;
  {
    const ScopedFileSystem scope(slow);
    CheckpointSaver saver(run->executor, store, context, {.retention = {.keep_last = 100}});
    for (int step = 1; step <= 6; ++step) {
      run->trainer.step_and_finish();
      weights_at.push_back(run->weights());
      saver.save(run->trainer, {});
      run->trainer.step_and_finish();  // changes the weights while the save is being written
      weights_at.push_back(run->weights());
    }
    saver.finish();
    EXPECT_EQ(saver.last_saved_step(), 11);
  }
  EXPECT_GT(slow.writes, 6);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1, 3, 5, 7, 9, 11}));
  for (const int64_t step : store.steps()) {
    const auto other = make_run();
    const ResumedState state = read_checkpoint(store.path_of(step), context, other->executor);
    EXPECT_EQ(state.progress.steps_done, step);
    EXPECT_EQ(other->weights(), weights_at[static_cast<size_t>(step - 1)]);
  }
}

/// A run on a device whose reads beside the ops can be held up or broken.
struct SideRun {
  test::FaultyBackend* backend = new test::FaultyBackend(make_cpu_backend({}));
  TinyRun run{tiny_model(),
              tiny_program_options(),
              {random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1)},
              tiny_trainer_options(40),
              std::unique_ptr<Backend>(backend)};
};

TEST_F(CheckpointSaverTest, TheNextForwardAndBackwardRunWhileTheStateIsCopiedAndItsUpdateWaits) {  // fault:A12
  SideRun side;
  TinyRun& run = side.run;
  CheckpointStore store(folder);
  CheckpointSaver saver(run.executor, store, context, {});
  run.trainer.step_and_finish();
  const std::vector<float> saved = run.weights();
  side.backend->set_faults(
      {.side_reads_wait_for_ops = std::ssize(run.executor.program().tape(Phase::kTrainFirst)->entries())});
  saver.save(run.trainer, {});
  EXPECT_EQ(side.backend->ops_run(), 0);
  run.trainer.step_and_finish();
  saver.finish();
  EXPECT_NE(run.weights(), saved);
  const auto other = make_run();
  read_checkpoint(store.path_of(1), context, other->executor);
  EXPECT_EQ(other->weights(), saved);
}

TEST_F(CheckpointSaverTest, ADeviceThatFailsUnderTheCopyFailsTheStepAndTheSave) {  // fault:B15
  SideRun side;
  TinyRun& run = side.run;
  CheckpointStore store(folder);
  CheckpointSaver saver(run.executor, store, context, {});
  run.trainer.step_and_finish();
  saver.save(run.trainer, {});
  run.trainer.step_and_finish();
  saver.finish();
  side.backend->set_faults({.fail_late_at = 0, .side_reads_wait_for_ops = 1});
  saver.save(run.trainer, {});
  EXPECT_THROW(run.trainer.step_and_finish(), DeviceError);
  EXPECT_EQ(side.backend->planted(), 1);
  EXPECT_THROW(saver.finish(), DeviceError);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{1}));
  EXPECT_NO_THROW(check_sealed_folder(store.path_of(1)));
}

TEST_F(CheckpointSaverTest, AFullDiskFailsTheNextCallAndKeepsTheOldCheckpoint) {  // fault:A3
  for (const bool is_async : {true, false}) {
    fs::remove_all(folder);
    const auto run = make_run();
    CheckpointStore store(folder);
    SlowFileSystem slow;
    const ScopedFileSystem scope(slow);
    CheckpointSaver saver(run->executor, store, context, {.is_async = is_async});
    run->trainer.step_and_finish();
    saver.save(run->trainer, {});
    saver.finish();
    slow.is_full = true;
    run->trainer.step_and_finish();
    EXPECT_THROW(
        {
          saver.save(run->trainer, {});
          saver.finish();
        },
        IoError);
    EXPECT_EQ(store.steps(), (std::vector<int64_t>{1}));
    EXPECT_NO_THROW(check_sealed_folder(store.path_of(1)));
    slow.is_full = false;
    saver.save(run->trainer, {});  // the disk has room again
    saver.finish();
    EXPECT_EQ(store.newest(), 2);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 3);  // two steps and the pointer, nothing else
  }
}

TEST_F(CheckpointSaverTest, AFailureOfAnyCallOfASaveKeepsTheOlderCheckpoint) {  // fault:A3, fault:A5
  const auto run = make_run();
  const auto later = make_run();
  const auto other = make_run();
  for (int step = 1; step <= 2; ++step) later->trainer.step();
  run->trainer.step();
  int failures = 0;
  bool has_failed = true;
  for (int64_t call = 0; has_failed; ++call) {
    fs::remove_all(folder);
    CheckpointStore store(folder);
    { CheckpointSaver(run->executor, store, context, {.is_async = false}).save(run->trainer, {}); }
    test::FailingFileSystem failing({.at_call = call, .error = call % 2 == 0 ? ENOSPC : EIO});
    {
      const ScopedFileSystem scope(failing);
      CheckpointSaver saver(later->executor, store, context, {.retention = {.keep_last = 1}});
      saver.save(later->trainer, {});
      try {
        saver.finish();
        EXPECT_FALSE(failing.has_failed()) << call;
      } catch (const IoError&) {
        EXPECT_TRUE(failing.has_failed()) << call;
      }
    }
    has_failed = failing.has_failed();
    failures += has_failed ? 1 : 0;
    ASSERT_TRUE(store.newest().has_value()) << call;
    const ResumedState state = read_checkpoint(store.path_of(*store.newest()), context, other->executor);
    EXPECT_EQ(other->weights(), state.progress.steps_done == 1 ? run->weights() : later->weights()) << call;
    EXPECT_TRUE(store.incomplete().empty()) << call;
    EXPECT_EQ(remove_partial_folders(folder), 0) << call;
  }
  EXPECT_GT(failures, 30);
}

TEST_F(CheckpointSaverTest, KeepsWhatTheRetentionSays) {
  const auto run = make_run();
  CheckpointStore store(folder);
  CheckpointSaver saver(run->executor, store, context, {.retention = {.keep_last = 2, .keep_every = 4}});
  for (int step = 0; step < 9; ++step) {
    run->trainer.step_and_finish();
    saver.save(run->trainer, {});
  }
  saver.finish();
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{4, 8, 9}));
}

}  // namespace
}  // namespace litespark
