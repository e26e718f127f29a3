// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "report/json_access.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark::report {
namespace {

const nlohmann::json kObject = {{"real", 1.5},
                                {"whole", 7},
                                {"text", "x"},
                                {"yes", true},
                                {"null", nullptr},
                                {"list", {{{"a", 1}}, {{"a", 2}}}},
                                {"sizes", {{"b", 2}, {"a", 1}}}};

TEST(JsonAccess, ReadsTypesAndTakesNullForAbsent) {
  const JsonObject object(kObject, "here");
  EXPECT_EQ(object.real("real"), 1.5);
  EXPECT_EQ(object.real("whole"), 7.0);
  EXPECT_EQ(object.integer("whole"), 7);
  EXPECT_EQ(object.text("text"), "x");
  EXPECT_EQ(object.boolean("yes"), true);
  EXPECT_EQ(object.real("null"), std::nullopt);
  EXPECT_EQ(object.real("absent"), std::nullopt);
  double sum = 0;
  object.each("list", [&](const JsonObject& member) { sum += member.real("a").value_or(0); });
  EXPECT_EQ(sum, 3.0);
  object.each_number("sizes", [&](const std::string&, double number) { sum += number; });
  EXPECT_EQ(sum, 6.0);
}

TEST(JsonAccess, AWrongTypeNamesPlaceAndKey) {
  const JsonObject object(kObject, "here");
  EXPECT_TRUE(contains(error_text<DataError>([&] { object.real("text"); }), "[here: text]"));
  EXPECT_TRUE(contains(error_text<DataError>([&] { object.integer("real"); }), "expected an integer"));
  EXPECT_TRUE(contains(error_text<DataError>([&] { object.text("yes"); }), "expected a string"));
  EXPECT_TRUE(contains(error_text<DataError>([&] { object.boolean("real"); }), "expected true or false"));
  EXPECT_TRUE(contains(error_text<DataError>([&] { object.each("sizes", [](const JsonObject&) {}); }), "an array"));
  EXPECT_TRUE(contains(error_text<DataError>([&] { object.each_number("list", [](const std::string&, double) {}); }),
                       "an object of numbers"));
  const nlohmann::json list = nlohmann::json::array();
  EXPECT_TRUE(contains(error_text<DataError>([&] { JsonObject(list, "there"); }), "[there]"));
}

TEST(JsonAccess, ALineThatWasCutOffIsLeftOut) {
  const test::TemporaryFolder folder;
  int lines = 0;
  each_json_line(folder.write("a", "{\"step\": 1}\n{\"step\": 2}\n{\"st"), [&](const JsonObject&) { ++lines; });
  EXPECT_EQ(lines, 2);
  each_json_line(folder.path() / "absent", [&](const JsonObject&) { ++lines; });
  EXPECT_EQ(lines, 2);
}

TEST(JsonAccess, ALogThatOnlyGrowsKeepsItsSoundLines) {
  const test::TemporaryFolder folder;
  double sum = 0;
  const auto path = folder.write("a", "{\"a\": 1}\n{\"a\": {\"a\": 2}\n{\"a\": \"x\"}\n{\"a\": 4}\n{\"a");
  const int64_t broken = each_sound_json_line(path, [&](const JsonObject& line) { sum += line.real("a").value_or(0); });
  EXPECT_EQ(broken, 2);
  EXPECT_EQ(sum, 5.0);
}

TEST(JsonAccess, ABrokenLineIsRefusedByNumber) {
  const test::TemporaryFolder folder;
  for (const char* broken : {"{\"step\": \n", "[]\n", "\n", "{\"a\": 1, \"a\": 2}\n", "{\"a\": 1e999}\n"}) {
    const auto path = folder.write("a", std::string("{}\n") + broken);
    EXPECT_TRUE(contains(error_text<DataError>([&] { each_json_line(path, [](const JsonObject&) {}); }), "a:2"))
        << broken;
  }
}

}  // namespace
}  // namespace litespark::report
