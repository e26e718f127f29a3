// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/memory_plan.h"
#include "core/rng.h"

namespace litespark {
namespace {

TensorId arena_tensor(TensorTable& table, int64_t bytes) {
  return table.add({.name = "t" + std::to_string(table.size()), .dtype = DType::kU8, .shape = {bytes}});
}

TEST(MemoryPlan, ReusesTheBytesOfTensorsThatDoNotLiveTogether) {
  TensorTable table;
  const TensorId a = arena_tensor(table, 1000);
  const TensorId b = arena_tensor(table, 1000);
  const TensorId c = arena_tensor(table, 1000);
  const PhaseLifetimes phase{.phase = "p", .num_ops = 6, .lifetimes = {{a, 0, 1}, {b, 1, 3}, {c, 2, 5}}};
  const MemoryPlan plan(table, {&phase, 1});
  EXPECT_EQ(plan.arena_bytes(), 2048);
  EXPECT_EQ(plan.offset(a), plan.offset(c));
  EXPECT_NE(plan.offset(a), plan.offset(b));
}

TEST(MemoryPlan, NeverLetsLivingTensorsOverlapOnRandomTapes) {
  const RandomStream random(5, 1);
  uint64_t draw = 0;
  for (int round = 0; round < 50; ++round) {
    TensorTable table;
    PhaseLifetimes phase{.phase = "random", .num_ops = 40, .lifetimes = {}};
    for (int i = 0; i < 60; ++i) {
      const auto first = static_cast<int32_t>(random.below(draw++, 40));
      const auto last = std::min<int32_t>(39, first + static_cast<int32_t>(random.below(draw++, 10)));
      phase.lifetimes.push_back(
          {arena_tensor(table, 1 + static_cast<int64_t>(random.below(draw++, 5000))), first, last});
    }
    const MemoryPlan plan(table, {&phase, 1});
    for (const Lifetime& x : phase.lifetimes) {
      const int64_t x_begin = plan.offset(x.tensor);
      EXPECT_EQ(x_begin % kTensorAlignment, 0);
      EXPECT_LE(x_begin + table[x.tensor].bytes(), plan.arena_bytes());
      for (const Lifetime& y : phase.lifetimes) {
        if (x.tensor == y.tensor || x.last < y.first || y.last < x.first) continue;
        const int64_t y_begin = plan.offset(y.tensor);
        EXPECT_TRUE(x_begin + table[x.tensor].bytes() <= y_begin || y_begin + table[y.tensor].bytes() <= x_begin);
      }
    }
    EXPECT_GE(plan.arena_bytes(), plan.phases()[0].live_bytes);
  }
}

TEST(MemoryPlan, SizesTheArenaByTheLargestPhase) {
  TensorTable table;
  const TensorId small = arena_tensor(table, 256);
  const TensorId large = arena_tensor(table, 2560);
  const std::vector<PhaseLifetimes> phases = {{"small", 1, {{small, 0, 0}}}, {"large", 1, {{large, 0, 0}}}};
  const MemoryPlan plan(table, phases);
  EXPECT_EQ(plan.arena_bytes(), 2560);
  EXPECT_EQ(plan.phases()[0].arena_bytes, 256);
  EXPECT_EQ(plan.offset(small), 0);
  EXPECT_EQ(plan.offset(large), 0);
}

TEST(MemoryPlan, BooksPersistentBytesAndThePeakOnTheirOwners) {
  TensorTable table;
  table.add(
      {.name = "w", .dtype = DType::kF32, .shape = {100}, .owner = Owner::kWeights, .storage = Storage::kPersistent});
  table.add(
      {.name = "m", .dtype = DType::kF32, .shape = {64}, .owner = Owner::kOptimizer, .storage = Storage::kPersistent});
  const TensorId scratch = table.add({.name = "s", .dtype = DType::kU8, .shape = {512}, .owner = Owner::kScratch});
  const PhaseLifetimes phase{.phase = "p", .num_ops = 3, .lifetimes = {{scratch, 2, 2}}};
  const MemoryPlan plan(table, {&phase, 1});
  EXPECT_EQ(plan.persistent_by_owner()[static_cast<size_t>(Owner::kWeights)], 512);
  EXPECT_EQ(plan.persistent_by_owner()[static_cast<size_t>(Owner::kOptimizer)], 256);
  EXPECT_EQ(plan.persistent_bytes(), 768);
  EXPECT_EQ(plan.phases()[0].peak_op, 2);
  EXPECT_EQ(plan.phases()[0].live_by_owner[static_cast<size_t>(Owner::kScratch)], 512);
}

TEST(MemoryPlan, HostTensorsStandInABlockOfTheirOwn) {
  TensorTable table;
  const TensorId device = arena_tensor(table, 100);
  std::vector<TensorId> host;
  for (int i = 0; i < 2; ++i) {
    host.push_back(table.add({.name = "h", .dtype = DType::kU8, .shape = {300}, .storage = Storage::kHost}));
  }
  const PhaseLifetimes phase{.phase = "p", .num_ops = 1, .lifetimes = {{device, 0, 0}}};
  const MemoryPlan plan(table, {&phase, 1});
  EXPECT_EQ(plan.host_bytes(), 1024);
  EXPECT_EQ(plan.offset(host[0]), 0);
  EXPECT_EQ(plan.offset(host[1]), 512);
  EXPECT_EQ(plan.total_bytes(), 256);
  EXPECT_EQ(plan.persistent_bytes(), 0);
}

class CarriedTensor : public testing::Test {
 protected:
  CarriedTensor() {
    gradient_ = table_.add({.name = "gradient", .dtype = DType::kU8, .shape = {2000}, .storage = Storage::kCarried});
    front_ = table_.view(gradient_, "front", {1000}, 0);
    back_ = table_.view(gradient_, "back", {1000}, 1000);
  }

  TensorTable table_;
  TensorId gradient_, front_, back_;
};

TEST_F(CarriedTensor, LendsThePartsThatAreNotWrittenYet) {
  const TensorId early = arena_tensor(table_, 1000);  // gone before `back` is written
  const TensorId late = arena_tensor(table_, 256);
  const std::vector<PhaseLifetimes> phases = {{"fill", 6, {{early, 0, 3}, {late, 2, 5}, {front_, 2, 5}, {back_, 4, 5}}},
                                              {"read", 2, {{gradient_, 0, 1}}}};
  const MemoryPlan plan(table_, phases);
  EXPECT_EQ(plan.offset(gradient_), 0);
  EXPECT_EQ(plan.offset(early), 1024);
  EXPECT_GE(plan.offset(late), 2000) << "nothing else is free at its time";
  EXPECT_EQ(plan.arena_bytes(), 2048 + 256);
  EXPECT_EQ(plan.persistent_bytes(), 0);
  EXPECT_EQ(plan.phases()[1].live_bytes, 2000);
}

TEST_F(CarriedTensor, KeepsOtherTensorsOfAPhaseThatReadsItOut) {
  const TensorId scratch = arena_tensor(table_, 100);
  const std::vector<PhaseLifetimes> phases = {{"fill", 1, {{front_, 0, 0}, {back_, 0, 0}}},
                                              {"read", 2, {{gradient_, 0, 1}, {scratch, 1, 1}}}};
  EXPECT_EQ(MemoryPlan(table_, phases).offset(scratch), 2048);
}

TEST_F(CarriedTensor, SeveralStandBesideEachOther) {
  const TensorId other =
      table_.add({.name = "other", .dtype = DType::kU8, .shape = {10}, .storage = Storage::kCarried});
  const PhaseLifetimes phase{"fill", 1, {{front_, 0, 0}, {other, 0, 0}}};
  EXPECT_EQ(MemoryPlan(table_, {&phase, 1}).offset(other), 2048);
}

TEST(TensorTable, FollowsViewsOfViewsToTheirRoot) {
  TensorTable table;
  const TensorId root = table.add({.name = "root", .dtype = DType::kF32, .shape = {10, 4}});
  const TensorId rows = table.rows(root, 2, 5);
  const TensorId cell = table.view(rows, "cell", {1}, 6);
  EXPECT_EQ(table[rows].shape, (Shape{5, 4}));
  EXPECT_EQ(table.root(cell).first, root);
  EXPECT_EQ(table.root(cell).second, (2 * 4 + 6) * 4);
}

TEST(TensorTable, RefusesSizesWhoseSumCouldWrap) {
  TensorTable table;
  EXPECT_THROW(table.add({.name = "huge", .dtype = DType::kF32, .shape = {int64_t{1} << 61}}), ConfigError);
  table.add({.name = "half", .dtype = DType::kU8, .shape = {int64_t{1} << 61}});
  EXPECT_THROW(table.add({.name = "more", .dtype = DType::kU8, .shape = {(int64_t{1} << 61) + 1}}), ConfigError);
}

TEST(TensorTable, RefusesViewsThatLeaveTheirParent) {
  TensorTable table;
  const TensorId root = table.add({.name = "root", .dtype = DType::kF32, .shape = {10, 4}});
  EXPECT_THROW(table.rows(root, 8, 3), InternalError);
  EXPECT_THROW(table.view(root, "v", {1}, -1), InternalError);
}

TEST(MemoryPlan, RefusesAnArenaTensorThatTwoPhasesUse) {
  TensorTable table;
  const TensorId shared = arena_tensor(table, 16);
  const std::vector<PhaseLifetimes> phases = {{"a", 1, {{shared, 0, 0}}}, {"b", 1, {{shared, 0, 0}}}};
  EXPECT_THROW(MemoryPlan(table, phases), InternalError);
}

TEST(MemoryPlan, MeasuresThePeakOfAStretchOfATape) {
  TensorTable table;
  const TensorId a = arena_tensor(table, 1024);
  const TensorId b = arena_tensor(table, 2048);
  const PhaseLifetimes phase{.phase = "p", .num_ops = 6, .lifetimes = {{a, 0, 4}, {b, 3, 5}}};
  const PhasePeak first = measure_peak(table, phase, 0, 3);
  EXPECT_EQ(first.live_bytes, 1024);
  EXPECT_EQ(first.peak_op, 0);
  const PhasePeak second = measure_peak(table, phase, 3, 6);
  EXPECT_EQ(second.live_bytes, 3072);
  EXPECT_EQ(second.peak_op, 3);
  EXPECT_EQ(measure_peak(table, phase, 5, 6).live_bytes, 2048);
}

}  // namespace
}  // namespace litespark
