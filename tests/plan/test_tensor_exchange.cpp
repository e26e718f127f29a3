// SPDX-License-Identifier: Apache-2.0
// That the closed form is the tapes' is held by test_run_forecast.
#include <gtest/gtest.h>

#include "plan/tensor_exchange.h"

namespace litespark {
namespace {

const Hardware& h200() {
  static const Hardware hardware = hardware_named("h200");
  return hardware;
}

RowsExchange rows_in(double stretches) {
  return {.bytes = 100e6, .stretches = stretches, .group = {2, 2}, .hardware = h200()};
}

ProductSeconds each(double seconds) {
  return {.forward = seconds, .input = seconds, .weight = seconds};
}

TEST(TensorExchange, WithoutProductsBesideThemAllCallsShow) {
  const RowsExchange rows = rows_in(2);
  const double once = 2 * (rows.gather_seconds() + rows.sum_seconds());
  const ExchangeSeconds none = pair_exchange(each(0), each(0), rows);
  EXPECT_NEAR(none.forward, once, 1e-12);
  EXPECT_NEAR(none.backward, once + 2 * rows.gather_seconds(), 1e-12);
  EXPECT_NEAR(ends_exchange(rows).forward, once, 1e-12);
}

TEST(TensorExchange, LongProductsLeaveAStretchOfEachCallAndWhatTheyLose) {
  const RowsExchange rows = rows_in(2);
  const ExchangeSeconds exchange = pair_exchange(each(1), each(1), rows);
  const double gather = rows.gather_seconds();
  const double sum = rows.sum_seconds();
  const double gather_lost = contention_seconds(Collective::kAllGather, rows.bytes, 2, h200());
  const double sum_lost = contention_seconds(Collective::kReduceScatter, rows.bytes, 2, h200());
  EXPECT_NEAR(exchange.forward, gather + sum + (gather_lost + sum_lost) / 2, 1e-12);
  // Half of one gather shows, of three calls in all.
  const double hidden = 1 - gather / (4 * gather + 2 * sum);
  EXPECT_NEAR(exchange.backward, gather + hidden * (2 * gather_lost + sum_lost), 1e-12);
}

TEST(TensorExchange, StretchesPayUntilTheirStartsCostMore) {
  const auto forward = [](double stretches, double product) {
    return pair_exchange(each(product), each(product), rows_in(stretches)).forward;
  };
  EXPECT_LT(forward(2, 1), forward(1, 1));
  EXPECT_LT(forward(4, 1), forward(2, 1));
  EXPECT_GT(forward(2, 0), forward(1, 0));
}

}  // namespace
}  // namespace litespark
