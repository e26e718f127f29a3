// SPDX-License-Identifier: Apache-2.0
// The file of timed choices around a run. What a GPU keeps in it is tested with the GPU.
#include <gtest/gtest.h>

#include "cli/small_run.h"
#include "io/file.h"
#include "support/error_text.h"

namespace litespark {
namespace {

TEST(TuningMemory, ARunThatTimesNothingMakesNoFile) {
  const SmallRun run;
  const auto file = run.path("tuning.json");
  const ProgramResult result = run.train({"--out=out", "--device.tuning_file=" + file.string()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_FALSE(is_present(file));
}

TEST(TuningMemory, ANamedFileThatIsNoTuningFileEndsTheRunByName) {
  const SmallRun run;
  const auto file = run.path("tuning.json");
  write_text_file(file, "{\"quick\": 3}");
  const ProgramResult result = run.train({"--out=out", "--device.tuning_file=" + file.string()});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(contains(result.errors, "tuning.json: quick")) << result.errors;
}

}  // namespace
}  // namespace litespark
