// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "spec/tape.h"

namespace litespark {
namespace {

struct TapeTest : testing::Test {
  TensorTable table;
  TensorId arena(const char* name) { return table.add({.name = name, .dtype = DType::kF32, .shape = {4, 4}}); }
};

TEST_F(TapeTest, LifetimesRunFromTheFirstWriteToTheLastRead) {
  const TensorId x = arena("x"), y = arena("y"), z = arena("z");
  const TensorId weight = table.add({.name = "w", .shape = {4, 4}, .storage = Storage::kPersistent});
  Tape tape("p");
  tape.push(op::Convert<TensorId>{.out = x, .x = weight});
  tape.push(op::Convert<TensorId>{.out = y, .x = x});
  tape.push(op::Convert<TensorId>{.out = table.rows(z, 0, 2), .x = table.rows(y, 0, 2)});
  tape.push(op::SwiGluBackward<TensorId>{.dgate_up = x, .dh = z, .gate_up = x});
  const PhaseLifetimes phase = tape_lifetimes(tape, table);
  ASSERT_EQ(phase.lifetimes.size(), 3u);  // the persistent weight has none
  EXPECT_EQ(phase.num_ops, 4);
  EXPECT_EQ(phase.lifetimes[0].first, 0);
  EXPECT_EQ(phase.lifetimes[0].last, 3);
  EXPECT_EQ(phase.lifetimes[1].last, 2);
  EXPECT_EQ(phase.lifetimes[2].first, 2);  // through its view
}

TEST_F(TapeTest, RefusesToReadWhatNothingWrote) {
  Tape tape("p");
  tape.push(op::Convert<TensorId>{.out = arena("out"), .x = arena("never_written")});
  EXPECT_THROW(tape_lifetimes(tape, table), InternalError);
}

TEST_F(TapeTest, AccumulationIntoUnwrittenMemoryIsARead) {
  Tape tape("p");
  const TensorId source = table.add({.name = "s", .shape = {4, 4}, .storage = Storage::kPersistent});
  tape.push(op::MatmulBackwardWeight<TensorId>{.dweight = arena("dw"), .dy = source, .x = source, .accumulate = true});
  EXPECT_THROW(tape_lifetimes(tape, table), InternalError);
}

TEST_F(TapeTest, PartsOfACarriedTensorLiveFromTheirFirstWriteToTheEndOfTheTape) {
  const TensorId carried = table.add({.name = "g", .shape = {4, 4}, .storage = Storage::kCarried});
  const TensorId front = table.view(carried, "front", {2, 4}, 0);
  const TensorId back = table.view(carried, "back", {2, 4}, 8);
  const TensorId source = table.add({.name = "s", .shape = {2, 4}, .storage = Storage::kPersistent});
  Tape tape("fill");
  tape.push(op::Convert<TensorId>{.out = back, .x = source});
  tape.push(op::Convert<TensorId>{.out = table.rows(front, 1, 1), .x = table.rows(source, 0, 1)});
  tape.push(op::Convert<TensorId>{.out = source, .x = back});
  const PhaseLifetimes phase = tape_lifetimes(tape, table);
  ASSERT_EQ(phase.lifetimes.size(), 2u);
  EXPECT_EQ(phase.lifetimes[0].tensor, front) << "through its rows";
  EXPECT_EQ(phase.lifetimes[0].first, 1);
  EXPECT_EQ(phase.lifetimes[0].last, 2);
  EXPECT_EQ(phase.lifetimes[1].tensor, back);
  EXPECT_EQ(phase.lifetimes[1].first, 0);
  EXPECT_EQ(phase.lifetimes[1].last, 2);
}

TEST_F(TapeTest, ACarriedTensorThatATapeReadsFirstLivesThroughoutIt) {
  const TensorId carried = table.add({.name = "g", .shape = {4, 4}, .storage = Storage::kCarried});
  const TensorId front = table.view(carried, "front", {2, 4}, 0);
  const TensorId back = table.view(carried, "back", {2, 4}, 8);
  const TensorId out = table.add({.name = "s", .shape = {2, 4}, .storage = Storage::kPersistent});
  Tape tape("read");
  tape.push(op::Convert<TensorId>{.out = out, .x = out});
  tape.push(op::Convert<TensorId>{.out = out, .x = back});
  tape.push(op::Convert<TensorId>{.out = front, .x = out});
  EXPECT_THROW(tape_lifetimes(tape, table), InternalError) << "nothing wrote it";
  const PhaseLifetimes phase = tape_lifetimes(tape, table, true);
  ASSERT_EQ(phase.lifetimes.size(), 1u);
  EXPECT_EQ(phase.lifetimes[0].tensor, carried);
  EXPECT_EQ(phase.lifetimes[0].first, 0);
  EXPECT_EQ(phase.lifetimes[0].last, 2);
}

TEST_F(TapeTest, ForwardOpsThatWereThereBeforeAreMarked) {
  const TensorId x = arena("x"), y = arena("y");
  Tape tape("p");
  const auto push = [&](std::string_view scope, bool is_recomputing) {
    tape.enter(scope, 0);
    tape.set_recomputing(is_recomputing);
    tape.push(op::Convert<TensorId>{.out = y, .x = x});
    return tape.entries().back().is_recomputed;
  };
  EXPECT_FALSE(push("forward.norm", false));
  EXPECT_TRUE(push("forward.norm", true));
  EXPECT_FALSE(push("backward.norm", true));
}

TEST_F(TapeTest, BindingKeepsScalarsAndAbsentTensors) {
  const op::AnyOp<TensorId> symbolic = op::RmsNormForward<TensorId>{
      .y = arena("y"), .rstd = arena("r"), .x = arena("x"), .weight = arena("w"), .eps = 0.25f};
  const auto bound = std::get<op::RmsNormForward<Tensor>>(bind_shapes(symbolic, table));
  EXPECT_EQ(bound.eps, 0.25f);
  EXPECT_TRUE(bound.y.has_value());
  EXPECT_FALSE(bound.delta.has_value());
  EXPECT_FALSE(bound.sum.has_value());
  EXPECT_EQ(op_name(symbolic), "rms_norm_forward");
}

}  // namespace
}  // namespace litespark
