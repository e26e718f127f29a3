// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/side_reader.h"

namespace litespark {
namespace {

TEST(SideReader, BringsTensorsToTheHostFromAnotherThread) {
  const auto backend = make_cpu_backend({.threads = 1});
  std::vector<float> values(100'000);
  std::iota(values.begin(), values.end(), 1.0f);
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  const auto memory = backend->allocate(bytes);
  backend->copy_to_device(memory->data(), values.data(), bytes);
  const auto reader = backend->make_side_reader();
  reader->follow();
  std::vector<float> back(values.size());
  std::thread([&] { reader->read(back.data(), memory->data(), bytes); }).join();
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace litespark
