// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "ops/async_read.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark {
namespace {

TEST(AsyncRead, HoldsWhatTheMemoryHeldWhenItWasStarted) {
  const auto backend = make_cpu_backend({.threads = 1});
  const auto memory = backend->allocate(sizeof(double));
  const auto read = backend->make_async_read(sizeof(double));
  double value = 1.5;
  std::memcpy(memory->data(), &value, sizeof(value));
  read->start(memory->data());
  value = -2.0;
  std::memcpy(memory->data(), &value, sizeof(value));
  EXPECT_TRUE(read->is_done());
  double seen = 0;
  std::memcpy(&seen, read->wait(), sizeof(seen));
  EXPECT_EQ(seen, 1.5);
  read->start(memory->data());
  std::memcpy(&seen, read->wait(), sizeof(seen));
  EXPECT_EQ(seen, -2.0);
}

TEST(AsyncRead, TellsTheTimeBetweenTwoOfThem) {
  const auto backend = make_cpu_backend({.threads = 1});
  const auto memory = backend->allocate(8);
  const auto first = backend->make_async_read(8);
  const auto second = backend->make_async_read(8);
  first->start(memory->data());
  second->start(memory->data());
  EXPECT_GE(second->seconds_since(*first), 0.0);
  EXPECT_EQ(first->seconds_since(*first), 0.0);
}

}  // namespace
}  // namespace litespark
