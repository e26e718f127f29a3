// SPDX-License-Identifier: Apache-2.0
// Every key of a run file with its type, range and default, held against a checked-in list: adding or changing an
// option is a visible diff. `UPDATE_CONFIG_KEYS=1` in the environment of this test rewrites the list.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "spec/run_config.h"

namespace litespark {
namespace {

constexpr const char* kListPath = LITESPARK_SOURCE_DIR "/tests/cli/config_keys.txt";

TEST(Surface, TheCheckedInKeyListIsTheProgramsOwn) {
  RunConfig defaults;
  const std::string keys = key_list(Fields::of(defaults));
  if (std::getenv("UPDATE_CONFIG_KEYS") != nullptr) std::ofstream(kListPath) << keys;
  std::ifstream stream(kListPath);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), keys);
}

}  // namespace
}  // namespace litespark
