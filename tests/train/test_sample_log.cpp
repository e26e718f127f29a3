// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/temporary_folder.h"
#include "train/sample_log.h"

namespace litespark {
namespace {

TEST(SampleLog, WhatAModelWritesIsOneEscapedLine) {
  EXPECT_EQ(sample_json({.step = 3, .prompt = "Say \"A\"", .text = "\n\\\x1b[2J"}),
            "{\"step\": 3, \"prompt\": \"Say \\\"A\\\"\", \"text\": \"\\n\\\\\\u001b[2J\"}");
}

TEST(SampleLog, AResumedRunKeepsTheSamplesOfItsSteps) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "samples.jsonl";
  {
    SampleLog log(path, 0);
    for (const int64_t step : {10, 20, 30}) log.add({.step = step, .prompt = "p", .text = "\"step\": 99"});
  }
  SampleLog(path, 20).add({.step = 30, .prompt = "p", .text = "again"});
  const std::string text = test::file_text(path);
  EXPECT_EQ(text, sample_json({10, "p", "\"step\": 99"}) + "\n" + sample_json({20, "p", "\"step\": 99"}) + "\n" +
                      sample_json({30, "p", "again"}) + "\n");
}

TEST(SampleLog, AFolderThatIsNotThereIsAStorageError) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(SampleLog(folder.path() / "absent" / "samples.jsonl", 0), IoError);
}

}  // namespace
}  // namespace litespark
