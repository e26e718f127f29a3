// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "dist/call_record.h"

namespace litespark::dist {
namespace {

CommCall call_of(int64_t number, float& value) {
  return {.kind = CallKind::kAllReduce,
          .data = {.data = &value, .dtype = DType::kF32, .shape = {1}, .device = Device::kCpu},
          .number = number,
          .step = 10 * number};
}

TEST(CallRecord, KeepsTheLastCallsInTheirOrder) {
  CallRecord record(3);
  EXPECT_TRUE(record.calls().empty());
  float value = 0;
  for (int64_t number = 1; number <= 5; ++number)
    record.add(call_of(number, value), {.group = "ranks 1 and 3"}, static_cast<size_t>(number % 2));
  record.end(2);  // is forgotten
  record.begin(4);
  const std::vector<RecordedCall> calls = record.calls();
  ASSERT_EQ(calls.size(), 3u);
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto number = static_cast<int64_t>(3 + i);
    EXPECT_EQ(calls[i].what, "all_reduce (sum) of f32 [1]");
    EXPECT_EQ(calls[i].number, number);
    EXPECT_EQ(calls[i].step, 10 * number);
    EXPECT_EQ(calls[i].group, "ranks 1 and 3");
    EXPECT_EQ(calls[i].bytes, 4);
    EXPECT_EQ(calls[i].lane, static_cast<size_t>(number % 2));
    EXPECT_EQ(std::isnan(calls[i].begun), number != 4);
    EXPECT_TRUE(std::isnan(calls[i].ended));
  }
}

TEST(CallRecord, NamesThePartnersOfAnExchange) {
  CallRecord record(3);
  float value = 0;
  const Tensor one{.data = &value, .dtype = DType::kF32, .shape = {1}, .device = Device::kCpu};
  const auto add = [&](int64_t number, const Tensor& sent, const Tensor& received) {
    CommCall call = call_of(number, value);
    call.kind = CallKind::kExchange;
    call.data = {};
    call.sent = sent;
    call.received = received;
    call.source = 1;
    call.destination = 2;
    record.add(call, {}, 0);
  };
  add(1, one, one);
  add(2, one, {});
  add(3, {}, one);
  const std::vector<RecordedCall> calls = record.calls();
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].what, "exchange to rank 2 of f32 [1], from rank 1 of f32 [1]");
  EXPECT_EQ(calls[1].what, "exchange to rank 2 of f32 [1]");
  EXPECT_EQ(calls[2].what, "exchange from rank 1 of f32 [1]");
}

}  // namespace
}  // namespace litespark::dist
