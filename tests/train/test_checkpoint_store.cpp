// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "io/file.h"
#include "io/sealed_folder.h"
#include "support/temporary_folder.h"
#include "train/checkpoint_store.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

struct CheckpointStoreTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path folder = scratch.path() / "checkpoint_store_test";
  void SetUp() override { fs::remove_all(folder); }
  static void seal(const CheckpointStore& store, int64_t step) {
    SealedFolderWriter writer(store.path_of(step), "id" + std::to_string(step));
    write_text_file(writer.path() / "state.json", std::to_string(step));
    writer.seal();
  }
};

TEST_F(CheckpointStoreTest, ListsOnlyWholeCheckpointsInOrder) {  // report:B36
  const CheckpointStore store(folder);
  EXPECT_FALSE(store.newest().has_value());
  for (const int64_t step : {100, 20, 3}) seal(store, step);
  fs::create_directories(folder / "step-200");  // no marker
  fs::create_directories(folder / "step-x");
  fs::create_directories(folder / ".partial-step-300-aa");
  write_text_file(folder / "step-400", "a file, not a folder");
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{3, 20, 100}));
  EXPECT_EQ(store.newest(), 100);
  EXPECT_EQ(store.incomplete(), (std::vector<std::string>{"step-200", "step-400"}));
}

TEST_F(CheckpointStoreTest, KeepsTheLastOnesAndEveryMth) {
  CheckpointStore store(folder);
  for (int64_t step = 10; step <= 100; step += 10) seal(store, step);
  EXPECT_EQ(store.prune({.keep_last = 2, .keep_every = 50}).size(), 7u);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{50, 90, 100}));
  EXPECT_EQ(store.prune({.keep_last = 0}), (std::vector<int64_t>{50, 90}));  // at least one always stays
}

TEST_F(CheckpointStoreTest, DeletesNothingWhenTheNewestIsDamaged) {  // fault:A10
  CheckpointStore store(folder);
  for (const int64_t step : {1, 2, 3, 4}) seal(store, step);
  std::ofstream(store.path_of(4) / "state.json") << "5";
  EXPECT_THROW(store.prune({.keep_last = 1}), DataError);
  EXPECT_EQ(store.steps().size(), 4u);
}

TEST_F(CheckpointStoreTest, CleansInterruptedSavesAndInterruptedDeletions) {
  CheckpointStore store(folder);
  seal(store, 1);
  seal(store, 2);
  fs::remove(store.path_of(1) / kCompleteMarker);  // killed in the middle of a deletion
  fs::create_directories(folder / ".partial-step-3-aa");
  EXPECT_TRUE(store.clean().empty());
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{2}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST_F(CheckpointStoreTest, SetsAsideANewerStepThatLostItsMarkerAndDeletesNothingOfIt) {  // report:B36
  CheckpointStore store(folder);
  seal(store, 1);
  seal(store, 2);
  fs::remove(store.path_of(2) / kCompleteMarker);
  EXPECT_EQ(store.clean(), (std::vector<std::string>{"step-2"}));
  EXPECT_EQ(store.newest(), 1);
  EXPECT_EQ(read_text_file(folder / "incomplete-step-2" / "state.json", 100), "2");
  seal(store, 2);  // its place is free again
  fs::remove(store.path_of(2) / kCompleteMarker);
  EXPECT_THROW(store.clean(), IoError);  // never over what was set aside before
  EXPECT_EQ(read_text_file(store.path_of(2) / "state.json", 100), "2");
}

TEST_F(CheckpointStoreTest, SaysHowMuchSpaceIsMissing) {  // fault:A4
  const CheckpointStore store(folder);
  EXPECT_NO_THROW(store.require_space(1));
  try {
    store.require_space(int64_t{1} << 60);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos);
  }
}

TEST_F(CheckpointStoreTest, PointsAtTheLatest) {
  CheckpointStore store(folder);
  seal(store, 5);
  store.set_latest(5);
  EXPECT_EQ(read_text_file(folder / "latest", 100), "step-5\n");
}

TEST_F(CheckpointStoreTest, RefusesAFileInItsPlace) {
  write_text_file(folder, "not a folder");
  EXPECT_ANY_THROW(CheckpointStore{folder});
}

}  // namespace
}  // namespace litespark
