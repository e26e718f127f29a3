// SPDX-License-Identifier: Apache-2.0
// Every key of a file that a command takes, with its type, range and default, held against a checked-in list: adding or
// changing an option is a visible diff. `UPDATE_CONFIG_KEYS=1` in the environment of this test rewrites the list.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "prepare/prepare.h"
#include "spec/run_config.h"

namespace litespark {
namespace {

constexpr const char* kListPath = LITESPARK_SOURCE_DIR "/tests/cli/config_keys.txt";

TEST(Surface, TheCheckedInKeyListIsTheProgramsOwn) {
  RunConfig run;
  PrepareConfig prepare;
  const std::string keys = "# run file (train, plan)\n" + key_list(Fields::of(run)) + "\n# data file (prepare)\n" +
                           key_list(Fields::of(prepare));
  if (std::getenv("UPDATE_CONFIG_KEYS") != nullptr) std::ofstream(kListPath) << keys;
  std::ifstream stream(kListPath);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), keys);
}

}  // namespace
}  // namespace litespark
