// SPDX-License-Identifier: Apache-2.0
// A thousand single-bit flips, spread evenly over every bit of a checkpoint: each one is refused, before the model is
// touched.
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "core/rng.h"
#include "io/file.h"
#include "support/slow_loops.h"
#include "support/temporary_folder.h"
#include "train/checkpoint.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

class BitFlips : public testing::Test {
 protected:
  BitFlips() : run_(make_run()) {
    run_->trainer.step();
    TrainingSnapshot snapshot;
    take_snapshot(run_->executor, run_->trainer, {.joules = 12.5}, snapshot);
    write_checkpoint(folder_, snapshot, context_);
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      files_.push_back(entry.path());
      num_bits_ += 8 * static_cast<uint64_t>(entry.file_size());
    }
    std::sort(files_.begin(), files_.end());
  }

  std::unique_ptr<TinyRun> make_run() const {
    return std::make_unique<TinyRun>(config_, tiny_program_options(),
                                     std::vector{random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1)},
                                     tiny_trainer_options());
  }

  /// Flips the bit of this number, counted over all files; a second call flips it back.
  void flip(uint64_t bit) const {
    size_t file = 0;
    for (; bit >= 8 * fs::file_size(files_[file]); ++file) bit -= 8 * fs::file_size(files_[file]);
    std::fstream stream(files_[file], std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(bit / 8));
    const auto byte = static_cast<char>(stream.get() ^ (1 << (bit % 8)));
    stream.seekp(static_cast<std::streamoff>(bit / 8));
    stream.put(byte);
  }

  const test::TemporaryFolder scratch_;
  const fs::path folder_ = scratch_.path() / "step-1";
  const ModelConfig config_ = tiny_model();
  const ParamTable params_ = make_param_table(config_);
  const CheckpointContext context_{.config = config_, .params = params_, .identity = {{"seed", "1"}}};
  std::unique_ptr<TinyRun> run_;
  std::vector<fs::path> files_;
  uint64_t num_bits_ = 0;
};

TEST_F(BitFlips, AThousandFlipsInACheckpointAreAllRefused) {  // fault:A6
  const auto other = make_run();
  const std::vector<float> before = other->weights();
  const RandomStream random(7, 1);
  const int flips = test::slow_loops(1000, 10000);
  int refused = 0;
  for (int round = 0; round < flips; ++round) {
    const uint64_t bit = random.below(static_cast<uint64_t>(round), num_bits_);
    flip(bit);
    try {
      read_checkpoint(folder_, context_, other->executor);
      ADD_FAILURE() << "bit " << bit << " of " << num_bits_ << " was not noticed";
    } catch (const DataError&) {
      ++refused;
    }
    flip(bit);
  }
  EXPECT_EQ(refused, flips);
  EXPECT_EQ(other->weights(), before);
  EXPECT_NO_THROW(read_checkpoint(folder_, context_, other->executor));
  EXPECT_EQ(other->weights(), run_->weights());
}

}  // namespace
}  // namespace litespark
