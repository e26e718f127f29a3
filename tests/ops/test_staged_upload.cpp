// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/staged_upload.h"

namespace litespark {
namespace {

TEST(StagedUpload, PutsEveryPartInItsPlaceAndLetsTheSourcesGo) {
  const auto backend = make_cpu_backend({.threads = 1});
  const auto memory = backend->allocate(64);
  const auto upload = backend->make_staged_upload({.data = memory->data(), .dtype = DType::kU8, .shape = {64}}, {});
  for (const unsigned char value : std::array<unsigned char, 3>{1, 2, 3}) {
    std::vector<unsigned char> front(10, value), back(6, static_cast<unsigned char>(value + 100));
    upload->fill(std::array{StagedUpload::Part{.offset_bytes = 0, .source = front.data(), .bytes = 10},
                            StagedUpload::Part{.offset_bytes = 32, .source = back.data(), .bytes = 6}});
    front.assign(10, 0);
    back.assign(6, 0);
    std::vector<unsigned char> seen(64);
    std::memcpy(seen.data(), memory->data(), 64);
    EXPECT_EQ(seen[9], value);
    EXPECT_EQ(seen[10], 0);
    EXPECT_EQ(seen[32], value + 100);
    EXPECT_EQ(seen[37], value + 100);
  }
}

}  // namespace
}  // namespace litespark
