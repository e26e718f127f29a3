// SPDX-License-Identifier: Apache-2.0
// What may stand on a tape for ranks to send each other: pieces of equal size, as many as there are ranks.
#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/backend.h"
#include "support/error_text.h"
#include "support/op_case.h"

namespace litespark::test {
namespace {

TEST(Communication, RefusesAShardThatIsNotOneOfAsManyPiecesAsRanks) {
  const Tensor data = shape_only(DType::kF32, {60});
  for (const int64_t size : {19, 20, 21}) {
    const Tensor shard = shape_only(DType::kF32, {size});
    for (const op::AnyOp<Tensor>& any : {op::AnyOp<Tensor>(op::ReduceScatter<Tensor>{shard, data, 3}),
                                         op::AnyOp<Tensor>(op::AllGather<Tensor>{data, shard, 3})}) {
      if (size == 20) {
        EXPECT_NO_THROW(validate(any));
        continue;
      }
      const std::string text = error_text<InternalError>([&] { validate(any); });
      EXPECT_NE(text.find("data has the wrong size"), std::string::npos) << text;
    }
  }
}

TEST(Communication, ReducesFloatingTensorsOnlyAndNumbersItsCalls) {
  const auto u16 = [](int64_t size) { return shape_only(DType::kU16, {size}); };
  EXPECT_THROW(validate(op::ReduceScatter<Tensor>{u16(20), u16(60), 3}), InternalError);
  EXPECT_NO_THROW(validate(op::AllGather<Tensor>{u16(60), u16(20), 3}));
  EXPECT_THROW(validate(op::AllGather<Tensor>{.data = u16(60), .shard = u16(20), .ranks = 3, .call = -1}),
               InternalError);
  EXPECT_THROW(validate(op::AllGather<Tensor>{u16(0), u16(0), 0}), InternalError);
  EXPECT_THROW(validate(op::CommWait<Tensor>{.tensor = u16(20), .source = {}, .call = -1}), InternalError);
}

TEST(Communication, RefusesAnExchangeOfUnequalPieces) {
  const auto u16 = [](int64_t size) { return shape_only(DType::kU16, {size}); };
  EXPECT_NO_THROW(validate(op::AllToAll<Tensor>{u16(60), u16(60), 3}));
  const std::string text = error_text<InternalError>([&] { validate(op::AllToAll<Tensor>{u16(61), u16(61), 3}); });
  EXPECT_NE(text.find("pieces are not equal"), std::string::npos) << text;
  EXPECT_THROW(validate(op::AllToAll<Tensor>{u16(60), u16(63), 3}), InternalError);
  EXPECT_THROW(validate(op::AllToAll<Tensor>{.data = u16(60), .sent = u16(60), .ranks = 3, .call = -1}), InternalError);
}

TEST(Communication, SendsToAndReceivesFromNeighboursAlone) {
  const Tensor rows = shape_only(DType::kBF16, {6, 5});
  for (const int neighbour : {1, -1}) {
    EXPECT_NO_THROW(validate(op::Send<Tensor>{.sent = rows, .neighbour = neighbour}));
    EXPECT_NO_THROW(validate(op::Receive<Tensor>{.received = rows, .neighbour = neighbour}));
  }
  EXPECT_THROW(validate(op::Send<Tensor>{.sent = rows, .neighbour = 2}), InternalError);
  EXPECT_THROW(validate(op::Receive<Tensor>{.received = rows, .neighbour = 0}), InternalError);
  EXPECT_THROW(validate(op::Receive<Tensor>{.received = rows, .neighbour = 1, .call = -1}), InternalError);
}

}  // namespace
}  // namespace litespark::test
