// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "dist/comm_call.h"

namespace litespark::dist {
namespace {

Tensor tensor_of(std::array<float, 8>& memory, Shape shape) {
  return {.data = memory.data(), .dtype = DType::kF32, .shape = shape, .device = Device::kCpu};
}

TEST(CommCall, LabelsSayTheCallForPeople) {
  std::array<float, 8> memory;
  CommCall call{.kind = CallKind::kAllReduce, .data = tensor_of(memory, {2, 4}), .number = 5, .step = 7};
  EXPECT_EQ(label_of(call).text(), "all_reduce (sum) of f32 [2, 4], call 5, step 7");
  call.kind = CallKind::kBroadcast;
  call.root = 3;
  EXPECT_EQ(label_of(call).text(), "broadcast from rank 3 of f32 [2, 4], call 5, step 7");
  EXPECT_EQ(label_of({.kind = CallKind::kBarrier, .number = 1}).text(), "barrier, call 1, step 0");
}

TEST(CommCall, CallsThatTouchTheSameMemoryAndBarriersAreOrdered) {
  std::array<float, 8> memory;
  std::array<float, 8> elsewhere;
  const CommCall gather{.kind = CallKind::kAllGather, .data = tensor_of(memory, {8}), .piece = tensor_of(memory, {4})};
  const CommCall apart{
      .kind = CallKind::kAllGather, .data = tensor_of(elsewhere, {4}), .piece = tensor_of(elsewhere, {2})};
  CommCall exchange{.kind = CallKind::kExchange, .received = tensor_of(elsewhere, {4})};
  EXPECT_TRUE(is_ordered_with(gather, gather));
  EXPECT_FALSE(is_ordered_with(gather, apart));
  EXPECT_FALSE(is_ordered_with(gather, exchange));
  EXPECT_TRUE(is_ordered_with(apart, exchange));
  exchange.sent = tensor_of(memory, {1});
  EXPECT_TRUE(is_ordered_with(gather, exchange));
  EXPECT_TRUE(is_ordered_with({.kind = CallKind::kBarrier}, apart));
  EXPECT_TRUE(is_ordered_with(apart, {.kind = CallKind::kBarrier}));
}

TEST(CommCall, LabelsDifferWhenAnythingThatRanksMustAgreeOnDoes) {
  std::array<float, 8> memory;
  const CommCall call{.kind = CallKind::kAllReduce, .data = tensor_of(memory, {8}), .number = 1};
  CommCall later = call;
  later.number = 2;
  later.step = 9;
  EXPECT_TRUE(label_of(call).is_same_call(label_of(later)));
  CommCall other = call;
  other.reduction = Reduction::kMax;
  EXPECT_FALSE(label_of(call).is_same_call(label_of(other)));
  other = call;
  other.data.shape = {2, 4};
  EXPECT_FALSE(label_of(call).is_same_call(label_of(other)));
  other = call;
  other.data.dtype = DType::kI32;
  EXPECT_FALSE(label_of(call).is_same_call(label_of(other)));
  other = call;
  other.kind = CallKind::kBroadcast;
  EXPECT_FALSE(label_of(call).is_same_call(label_of(other)));
}

TEST(CommCall, ADamagedLabelStillHasAText) {
  CallLabel label;
  label.kind = static_cast<CallKind>(200);
  label.shape_rank = 255;
  EXPECT_EQ(label.text(), "an unknown call of f32 [0, 0, 0, 0], call 0, step 0");
}

TEST(CommCall, PiecesLieOneAfterAnother) {
  std::array<float, 8> memory;
  const Tensor piece = piece_of(tensor_of(memory, {2, 4}), 3, 4);
  EXPECT_EQ(piece.data, memory.data() + 6);
  EXPECT_EQ(piece.shape, Shape{2});
}

TEST(CommCall, RefusalsNameTheRankAndTheCall) {
  std::array<float, 8> memory;
  const CommCall call{.kind = CallKind::kBroadcast, .data = tensor_of(memory, {8}), .root = 4};
  try {
    check_call(call, {.name = "gloo", .rank = 1, .size = 4, .device = Device::kCpu});
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "[gloo rank 1 of 4, broadcast] root is no rank; got 4, expected 0 to 3");
  }
}

}  // namespace
}  // namespace litespark::dist
