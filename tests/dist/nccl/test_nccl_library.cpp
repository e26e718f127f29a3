// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "dist/nccl/nccl_library.h"

namespace litespark::dist {
namespace {

TEST(NcclLibrary, IsFoundAndLeavesMulticastOffUnlessTheUserSaysOtherwise) {
  EXPECT_GE(nccl_library().version, 21800);
  ASSERT_NE(std::getenv("NCCL_NVLS_ENABLE"), nullptr);
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
}

}  // namespace
}  // namespace litespark::dist
