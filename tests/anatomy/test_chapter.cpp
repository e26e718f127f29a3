// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "anatomy/chapter.h"

namespace litespark::anatomy {
namespace {

Chapter sample() {
  return {.name = "sample",
          .title = "a sample",
          .setup = {{"size", "4 x 4"}},
          .findings = {{.key = "rate",
                        .what = "rate",
                        .ours = quantity(12.25, "GB/s", 2),
                        .claim = "C4",
                        .published = "10 GB/s",
                        .advice = "read \"rows\" whole"},
                       {.key = "kind", .what = "kind", .ours = words("plain")}},
          .tables = {{.key = "sizes",
                      .title = "by size",
                      .columns = {"size", "time"},
                      .rows = {{words("small"), seconds_value(0.002)}}}}};
}

TEST(Chapter, PrintsOursBesideThePublishedFigureAndTheAdviceBelow) {
  EXPECT_EQ(chapter_text(sample()),
            "sample: a sample\n"
            "  size: 4 x 4\n"
            "\n"
            "        here        published\n"
            "  rate  12.25 GB/s  claim:C4 10 GB/s\n"
            "  kind  plain\n"
            "\n"
            "  by size\n"
            "  size      time\n"
            "  --------------\n"
            "  small  2.00 ms\n"
            "\n"
            "  what to do\n"
            "  - read \"rows\" whole\n");
}

TEST(Chapter, WritesNumbersWithTheirUnitsAsJson) {
  EXPECT_EQ(chapter_json(sample()),
            "{\"chapter\": \"sample\", \"title\": \"a sample\", \"setup\": {\"size\": \"4 x 4\"}, \"findings\": "
            "{\"rate\": {\"value\": 12.25, \"unit\": \"GB/s\", \"what\": \"rate\", \"text\": \"12.25 GB/s\", "
            "\"claim\": \"C4\", \"published\": \"10 GB/s\", \"advice\": \"read \\\"rows\\\" whole\"}, "
            "\"kind\": {\"what\": \"kind\", \"text\": \"plain\"}}, \"tables\": {\"sizes\": {\"title\": \"by size\", "
            "\"columns\": [\"size\", \"time\"], \"rows\": [[\"small\", 0.002]]}}}");
}

TEST(Chapter, ChoosesTheUnitOfTimeThatKeepsTheNumberAtOneOrAbove) {
  EXPECT_EQ(seconds_value(2).text, "2.00 s");
  EXPECT_EQ(seconds_value(4.5e-6).text, "4.50 us");
  EXPECT_EQ(seconds_value(7e-9).text, "7.00 ns");
  EXPECT_EQ(percent(0.372).text, "37.2 %");
  EXPECT_EQ(factor(1.834).text, "1.83 x");
}

TEST(Chapter, FindsAFindingByItsKey) {
  const Chapter chapter = sample();
  ASSERT_NE(chapter.find("kind"), nullptr);
  EXPECT_EQ(chapter.find("kind")->ours.text, "plain");
  EXPECT_EQ(chapter.find("absent"), nullptr);
}

}  // namespace
}  // namespace litespark::anatomy
