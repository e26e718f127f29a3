// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "train/step_lines.h"

namespace litespark {
namespace {

TEST(StepLines, ANumberIsFoundByItsKeyInWholeLinesOnly) {
  EXPECT_EQ(integer_in_line("{\"step\": 12, \"loss\": 1.5}", "step"), 12);
  EXPECT_EQ(integer_in_line("{\"step\": 12, \"tokens\": 7}", "tokens"), 7);
  EXPECT_EQ(integer_in_line("{\"step\": 12, \"tok", "step"), std::nullopt);
  EXPECT_EQ(integer_in_line("{\"step\": \"12\"}", "step"), std::nullopt);
  EXPECT_EQ(integer_in_line("", "step"), std::nullopt);
}

TEST(StepLines, LinesOfStepsThatAResumeTakesAgainAndTornOnesGo) {  // report:B36
  const test::TemporaryFolder folder;
  const auto path =
      folder.write("log.jsonl", "{\"step\": 1}\n{\"step\": 2}\nrubbish\n{\"step\": 3}\n{\"step\": 2, \"te");
  EXPECT_EQ(lines_up_to_step(path, 2), "{\"step\": 1}\n{\"step\": 2}\n");
  EXPECT_EQ(lines_up_to_step(path, 0), "");
  EXPECT_EQ(lines_up_to_step(folder.path() / "absent", 9), "");
}

}  // namespace
}  // namespace litespark
