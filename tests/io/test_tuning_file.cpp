// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/error.h"
#include "io/file.h"
#include "io/tuning_file.h"
#include "support/temporary_folder.h"

namespace litespark::test {
namespace {

TEST(TuningFile, WhatWasAddedIsFoundAgainAndNothingIsLost) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "cache" / "tuning.json";
  EXPECT_TRUE(read_tuning_file(path).empty());
  add_to_tuning_file(path, "quick", {{"a", "1"}, {"b", "2"}});
  add_to_tuning_file(path, "thorough", {{"b", "3"}});
  add_to_tuning_file(path, "quick", {{"c", "4"}});
  const TuningBySearch expected = {{"quick", {{"a", "1"}, {"b", "2"}, {"c", "4"}}}, {"thorough", {{"b", "3"}}}};
  EXPECT_EQ(read_tuning_file(path), expected);
}

TEST(TuningFile, AFileOfTheWorkingFolderNeedsNoFolderOfItsOwn) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_NO_THROW(add_to_tuning_file("tuning.json", "quick", {{"a", "1"}}));
  std::filesystem::current_path(before);
  EXPECT_EQ(read_tuning_file(folder.path() / "tuning.json"), (TuningBySearch{{"quick", {{"a", "1"}}}}));
}

TEST(TuningFile, AQuickRunTakesWhatAThoroughOneFoundButNotTheOtherWayRound) {
  const TuningBySearch known = {{"quick", {{"a", "1"}, {"b", "2"}}}, {"thorough", {{"b", "3"}}}};
  EXPECT_EQ(usable_choices(known, "quick"), (TuningChoices{{"a", "1"}, {"b", "3"}}));
  EXPECT_EQ(usable_choices(known, "thorough"), (TuningChoices{{"b", "3"}}));
}

TEST(TuningFile, WhatIsNoSuchFileIsRefusedByName) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tuning.json";
  for (const char* const text :
       {"[]", "{\"fast\": {}}", "{\"quick\": []}", "{\"quick\": {\"a\": 1}}", "{\"quick\": {"}) {
    write_text_file(path, text);
    try {
      read_tuning_file(path);
      ADD_FAILURE() << text;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("tuning.json"), std::string::npos) << error.what();
    }
  }
}

TEST(TuningFile, AFolderThatCannotBeMadeIsAStorageError) {
  const TemporaryFolder folder;
  write_text_file(folder.path() / "file", "");
  EXPECT_THROW(add_to_tuning_file(folder.path() / "file" / "tuning.json", "quick", {{"a", "1"}}), IoError);
}

TEST(TuningFile, TheCacheFolderOfTheUserIsTheDefault) {
  setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(default_tuning_file(), "/somewhere/litespark/tuning.json");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(default_tuning_file(), "/home/somebody/.cache/litespark/tuning.json");
}

}  // namespace
}  // namespace litespark::test
