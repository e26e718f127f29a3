// SPDX-License-Identifier: Apache-2.0
// The documents made from a field list, spelled out.
#include <gtest/gtest.h>

#include "core/fields.h"
#include "core/sample_settings.h"
#include "support/error_text.h"

namespace litespark {
namespace {

TEST(FieldsText, TomlListsSetFieldsBySection) {
  SampleSettings settings;
  settings.name = "a \"b\"";
  settings.count = 4;
  settings.tags = {"p", "q"};
  EXPECT_EQ(to_toml(Fields::of(settings)),
            "is_loud = false\nname = \"a \\\"b\\\"\"\ncolour = \"red\"\nsize = \"small\"\ncount = 4\n"
            "tags = [\"p\", \"q\"]\n\n"
            "[engine]\nsteps = 10\nlearning_rate = 0.5\nbetas = [0.5, 0.25]\nteeth = [3, 4]\n\n"
            "[engine.inner]\ndepth = 3\n");
}

TEST(FieldsText, JsonNestsSectionsAndSaysNullForUnset) {
  EngineSettings settings;
  EXPECT_EQ(to_json(Fields::of(settings)),
            "{\n  \"steps\": 10,\n  \"learning_rate\": 0.5,\n  \"price\": null,\n  \"betas\": [0.5, 0.25],\n"
            "  \"teeth\": [3, 4],\n  \"inner\": {\n    \"depth\": 3\n  }\n}");
}

TEST(FieldsText, TheKeyListShowsTypeRangeAndDefault) {
  EngineSettings settings;
  EXPECT_EQ(key_list(Fields::of(settings)),
            "steps  integer, 1 or more  10\nlearning_rate  number, above 0  0.5\nprice  number, 0 or more  unset\n"
            "betas  list of numbers, 0 to below 1  [0.5, 0.25]\n"
            "teeth  list of integers, 1 or more  [3, 4]\ninner.depth  integer, 1 to 9  3\n");
}

TEST(FieldsText, HelpShowsUnitRangeDefaultAndPurpose) {
  SampleSettings settings;
  const std::string help = help_text(Fields::of(settings), "engine");
  EXPECT_TRUE(contains(help, "  --engine.steps  (integer, 1 or more; steps; default 10)\n        How many.\n"));
  EXPECT_EQ(help.find("depth"), std::string::npos);
}

TEST(FieldsText, HelpBreaksLongLines) {
  struct Wordy {
    bool flag = false;
    std::string help;
    void visit(Fields& fields) { fields.add({.path = "flag", .value = &flag, .help = help}); }
  } wordy;
  for (int i = 0; i < 60; ++i) wordy.help += "word ";
  const std::string help = help_text(Fields::of(wordy), "");
  size_t start = 0;
  for (size_t end = help.find('\n'); end != std::string::npos; start = end + 1, end = help.find('\n', start)) {
    EXPECT_LE(end - start, 100u);
  }
}

}  // namespace
}  // namespace litespark
