// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/check_list.h"

namespace litespark {
namespace {

using Checks = std::vector<Check>;

TEST(CheckList, TheWorstOutcomeDecidesTheExitCode) {
  const Check pass{.name = "a"};
  const Check note{.name = "b", .outcome = Outcome::kNote};
  const Check skip{.name = "c", .outcome = Outcome::kSkip};
  const Check fail{.name = "d", .outcome = Outcome::kFail};
  const Check hardware{.name = "e", .outcome = Outcome::kHardware};
  EXPECT_EQ(exit_code_of({}), ExitCode::kDone);
  EXPECT_EQ(exit_code_of({pass, note, skip}), ExitCode::kDone);
  EXPECT_EQ(exit_code_of({pass, fail, note}), ExitCode::kCheckFailed);
  EXPECT_EQ(exit_code_of({hardware, fail}), ExitCode::kHardware);
}

TEST(CheckList, TheTableAlignsAndEndsInASentence) {
  EXPECT_EQ(
      checks_text({{.name = "one", .detail = "3 of 3"}, {.name = "longer", .outcome = Outcome::kFail, .detail = "x"}}),
      "one     pass      3 of 3\nlonger  FAIL      x\n\n2 checks, 1 failed\n");
  EXPECT_EQ(checks_text({{.name = "one"}}), "one  pass      \n\n1 checks, nothing wrong\n");
  EXPECT_NE(checks_text({{.name = "one", .outcome = Outcome::kHardware}}).find("suspect this machine"),
            std::string::npos);
}

TEST(CheckList, TheJsonHoldsEveryCheckEscaped) {
  EXPECT_EQ(
      checks_json({{.name = "a\"b", .outcome = Outcome::kSkip, .detail = "why"}}),
      "{\"pass\": true, \"checks\": [\n  {\"name\": \"a\\\"b\", \"outcome\": \"skip\", \"detail\": \"why\"}\n]}\n");
}

}  // namespace
}  // namespace litespark
