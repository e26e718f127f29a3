// SPDX-License-Identifier: Apache-2.0
// A flipped bit on one rank, in every kind of tensor that all ranks must have, ends the run with its name.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstddef>
#include <map>

#include "core/error.h"
#include "support/error_text.h"
#include "train/rank_runs.h"
#include "train/replica_check.h"

namespace litespark {
namespace {

RankedRun checked_run(int64_t every = 2) {
  RankedRun run;
  run.batches = twelve_batches();
  run.config.has_qkv_bias = run.config.has_qk_norm = true;
  run.options.checks_replicas = true;
  run.trainer.verify_ranks_every = every;
  return run;
}

void flip_bit(TinyRun& run, TensorId id, int64_t byte) {
  const int64_t bytes = run.executor.program().tensors[id].bytes();
  std::vector<uint8_t> content(static_cast<size_t>(bytes));
  run.executor.read(id, content.data(), bytes);
  content[static_cast<size_t>(byte % bytes)] ^= 0x10;
  run.executor.write(id, content.data(), bytes);
}

/// Flips a bit just in front of the comparison: what forward read is what is compared, and nothing heals or spreads it.
class Flipper final : public OpObserver {
 public:
  Flipper(TinyRun& run, TensorId id) : run_(run), id_(id) {}
  void before(const TapeEntry& entry) override {
    if (entry.scope != "check.replicas" || was_flipped_) return;
    flip_bit(run_, id_, 1234567);
    was_flipped_ = true;
  }
  void after(const TapeEntry&) override {}

 private:
  TinyRun& run_;
  TensorId id_;
  bool was_flipped_ = false;
};

/// What each rank says of step 3, in which a bit of the chosen tensor is flipped on one of them.
std::vector<std::string> errors_after_flip(int ranks, const RankedRun& run, int64_t rank,
                                           const std::function<TensorId(const Program&)>& choose) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  on_ranks(ranks, run, [&](TinyRun& mine) {
    const Program& program = mine.executor.program();
    mine.trainer.step_and_finish();
    mine.trainer.step_and_finish();
    Flipper flipper(mine, choose(program));
    if (program.options.world_rank() == rank) mine.executor.set_observer(&flipper);
    errors[static_cast<size_t>(program.options.world_rank())] =
        error_text<DeviceError>([&] { mine.trainer.step_and_finish(); });
  });
  return errors;
}

TEST(ReplicaCheck, EqualRanksGoOnAndGiveTheSameBits) {
  for (const bool packs : {true, false}) {
    RankedRun run = checked_run(1);
    run.packs = packs;
    const Outcome checked = train_ranks(3, run, 4);
    run.options.checks_replicas = false;
    run.trainer.verify_ranks_every = 0;
    EXPECT_EQ(checked.weights, train_ranks(3, run, 4).weights);
  }
}

TEST(ReplicaCheck, FindsAFlippedBitInEveryKindOfTensorAndNamesRankAndTensor) {  // fault:C3
  for (const bool packs : {true, false}) {
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      RankedRun run = checked_run();
      run.packs = packs;
      run.options.compute = compute;
      std::vector<std::string> names;
      on_ranks(3, run, [&](TinyRun& mine) {
        if (mine.executor.program().options.data_rank != 0) return;
        for (const TensorId id : mine.executor.program().replicas.tensors) {
          names.push_back(mine.executor.program().tensors[id].name);
        }
      });
      std::map<std::string, size_t> kinds;  // by what stands behind the parameter's name, and its role
      for (size_t i = 0; i < names.size(); ++i) {
        std::string kind = names[i];
        if (kind.starts_with("layers.")) kind = kind.substr(kind.find('.', 7));
        kinds[kind] = i;
      }
      EXPECT_GT(kinds.size(), 8U);
      for (const auto& [kind, index] : kinds) {
        SCOPED_TRACE(names[index]);
        const auto errors = errors_after_flip(
            3, run, 1, [&, which = index](const Program& program) { return program.replicas.tensors[which]; });
        for (const std::string& error : errors) {
          EXPECT_NE(error.find("step 3: "), std::string::npos) << error;
          EXPECT_NE(error.find(names[index]), std::string::npos) << error;
          EXPECT_NE(error.find("on rank 1 against most"), std::string::npos) << error;
        }
      }
    }
  }
}

TEST(ReplicaCheck, FindsAStepThatOneRankDecidedOtherwise) {
  std::array<std::string, 3> errors;
  on_ranks(3, checked_run(), [&](TinyRun& mine) {
    const auto rank = static_cast<size_t>(mine.executor.program().options.data_rank);
    mine.trainer.step_and_finish();
    mine.trainer.step_and_finish();
    if (rank == 2) {
      StepState state = mine.executor.read_state();
      ++state.optimizer_steps;
      mine.executor.write_state(state);
    }
    errors[rank] = error_text<DeviceError>([&] { mine.trainer.step_and_finish(); });
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("state.outcome on rank 2 against most"), std::string::npos) << error;
  }
}

TEST(ReplicaCheck, TwoRanksAreBothNamed) {
  const auto errors =
      errors_after_flip(2, checked_run(), 1, [](const Program& program) { return program.replicas.tensors.front(); });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("among ranks 0 and 1, of which no majority agrees"), std::string::npos) << error;
  }
}

TEST(ReplicaCheck, RanksOfOneReplicaAreComparedWithTheirLikesAndNamedByTheirPlaceInTheRun) {
  RankedRun run = checked_run();
  run.options.tensor_ranks = 2;
  std::array<std::string, 6> errors;
  std::barrier compared(3);
  on_ranks(6, run, [&](TinyRun& mine) {
    const Program& program = mine.executor.program();
    const auto rank = static_cast<size_t>(program.options.world_rank());
    mine.trainer.step_and_finish();
    mine.trainer.step_and_finish();
    Flipper flipper(mine, program.param_tensors[1].master);
    if (rank == 3) mine.executor.set_observer(&flipper);
    if (rank % 2 == 0) {  // their likes agree, and then the others are gone
      EXPECT_THROW(mine.trainer.step_and_finish(), CommError);
      return;
    }
    errors[rank] = error_text<DeviceError>([&] { mine.trainer.step_and_finish(); });
    compared.arrive_and_wait();
    mine.executor.communicator()->abort("test");
  });
  for (const size_t rank : {1, 3, 5}) {
    EXPECT_NE(errors[rank].find("on rank 3 against most"), std::string::npos) << errors[rank];
  }
}

TEST(ReplicaCheck, ChecksTheFirstStepAndEveryNthBehindIt) {
  int found = 0;
  for (const int step : {1, 2, 3, 4}) {
    std::array<bool, 3> ends{};
    on_ranks(3, checked_run(3), [&](TinyRun& mine) {
      const auto rank = static_cast<size_t>(mine.executor.program().options.data_rank);
      for (int before = 1; before < step; ++before) mine.trainer.step_and_finish();
      if (rank == 0) flip_bit(mine, mine.executor.program().param_tensors[1].master, 2);
      try {
        mine.trainer.step_and_finish();
      } catch (const DeviceError&) {
        ends[rank] = true;
      }
    });
    EXPECT_EQ(ends[0], step == 1 || step == 4) << step;
    EXPECT_EQ(ends[1], ends[0]);
    found += ends[0] ? 1 : 0;
  }
  EXPECT_EQ(found, 2);
}

TEST(ReplicaCheck, CopiesOfSmallParametersAreComparedBehindTheirSynchronisation) {
  RankedRun run = checked_run(2);
  run.options.sync_small_every = 2;
  EXPECT_EQ(train_ranks(2, run, 6).records.size(), 6U);
}

TEST(ReplicaDifferences, AreFoundByColumnAndNameTheMinority) {
  const std::vector<int64_t> table = {1, 2, 3,   //
                                      1, 9, 3,   //
                                      1, 2, 4,   //
                                      1, 2, 5};  //
  const auto differences = find_replica_differences(table, 4);
  ASSERT_EQ(differences.size(), 2U);
  EXPECT_EQ(differences[0].tensor, 1U);
  EXPECT_EQ(differences[0].ranks, std::vector<int64_t>{1});
  EXPECT_TRUE(differences[0].has_majority);
  EXPECT_EQ(differences[1].tensor, 2U);
  EXPECT_EQ(differences[1].ranks, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_FALSE(differences[1].has_majority);
}

}  // namespace
}  // namespace litespark
