// SPDX-License-Identifier: Apache-2.0
// Every field type takes what it should and refuses the rest with a message that says what to write instead.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/fields.h"
#include "core/sample_settings.h"
#include "support/error_text.h"

namespace litespark {
namespace {

class FieldsTest : public testing::Test {
 protected:
  void set(const char* path, const ConfigValue& value) { assign(*fields_.find(path), value, "here"); }
  void type(const char* path, const char* text) { assign_text(*fields_.find(path), text, "here"); }
  std::string refused(const char* path, const ConfigValue& value) {
    return error_text<ConfigError>([&] { set(path, value); });
  }
  std::string unknown(const char* path) {
    return error_text<ConfigError>([&] { throw_unknown_key(fields_, path, "here"); });
  }

  SampleSettings settings_;
  Fields fields_ = Fields::of(settings_);
};

TEST_F(FieldsTest, EveryTypeTakesItsValue) {
  set("is_loud", true);
  set("name", std::string("y"));
  set("colour", std::string("green"));
  set("size", std::string("large"));
  set("is_open", false);
  set("count", int64_t{-5});
  set("tags", std::vector<std::string>{"a", "b"});
  set("engine.steps", int64_t{7});
  set("engine.learning_rate", 0.125);
  set("engine.price", int64_t{2});
  set("engine.betas", std::vector<double>{0.0, 0.75});
  set("engine.teeth", std::vector<double>{5, 6, 7});
  set("engine.inner.depth", int64_t{9});
  EXPECT_TRUE(settings_.is_loud);
  EXPECT_EQ(settings_.name, "y");
  EXPECT_EQ(settings_.colour, Colour::kGreen);
  EXPECT_EQ(settings_.size, "large");
  EXPECT_EQ(settings_.is_open, false);
  EXPECT_EQ(settings_.count, -5);
  EXPECT_EQ(settings_.tags, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(settings_.engine.steps, 7);
  EXPECT_EQ(settings_.engine.rate, 0.125);
  EXPECT_EQ(settings_.engine.price, 2.0);
  EXPECT_EQ(settings_.engine.betas, (std::vector<double>{0.0, 0.75}));
  EXPECT_EQ(settings_.engine.teeth, (std::vector<int64_t>{5, 6, 7}));
  EXPECT_EQ(settings_.engine.inner.depth, 9);
}

TEST_F(FieldsTest, AListOfIntegersTakesNothingElse) {
  EXPECT_TRUE(contains(refused("engine.teeth", std::vector<double>{5, 2.5}),
                       "wrong type; got [5.0, 2.5], expected list of integers, 1 or more"));
  EXPECT_TRUE(contains(refused("engine.teeth", std::vector<double>{5, 0}), "out of range; got [5.0, 0.0]"));
  EXPECT_TRUE(contains(refused("engine.teeth", std::vector<double>{1e300}), "out of range"));
  EXPECT_TRUE(contains(refused("engine.teeth", int64_t{5}), "wrong type; got 5"));
  EXPECT_TRUE(contains(refused("engine.teeth", std::vector<std::string>{"5"}), "wrong type"));
  EXPECT_THROW(type("engine.teeth", "5,x"), ConfigError);
  EXPECT_EQ(settings_.engine.teeth, (std::vector<int64_t>{3, 4}));
  type("engine.teeth", "7, 1");
  EXPECT_EQ(settings_.engine.teeth, (std::vector<int64_t>{7, 1}));
  EXPECT_EQ(value_text(*fields_.find("engine.teeth")), "[7, 1]");
  set("engine.teeth", std::vector<std::string>{});  // an empty list has no type
  EXPECT_TRUE(settings_.engine.teeth.empty());
}

TEST_F(FieldsTest, TypedTextIsReadByTheFieldsType) {
  type("name", "12");
  type("count", "4");
  type("engine.learning_rate", "1e-3");
  type("engine.betas", "0.5, 0.75");
  type("tags", "[\"a\", b]");
  type("is_open", "true");
  EXPECT_EQ(settings_.name, "12");
  EXPECT_EQ(settings_.count, 4);
  EXPECT_EQ(settings_.engine.rate, 1e-3);
  EXPECT_EQ(settings_.engine.betas, (std::vector<double>{0.5, 0.75}));
  EXPECT_EQ(settings_.tags, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(settings_.is_open, true);
  type("count", "none");
  type("tags", "[]");
  EXPECT_EQ(settings_.count, std::nullopt);
  EXPECT_TRUE(settings_.tags.empty());
}

TEST_F(FieldsTest, RefusesAWrongTypeWithPathFoundAndExpected) {  // report:B45
  const std::string text = refused("engine.steps", std::string("7"));
  EXPECT_TRUE(contains(text, "here: engine.steps"));
  EXPECT_TRUE(contains(text, "got \"7\""));
  EXPECT_TRUE(contains(text, "expected integer, 1 or more"));
  EXPECT_TRUE(contains(refused("engine.steps", 7.0), "wrong type"));
  EXPECT_TRUE(contains(refused("engine.steps", true), "wrong type"));
  EXPECT_TRUE(contains(refused("is_loud", int64_t{1}), "true or false"));
  EXPECT_TRUE(contains(refused("name", int64_t{1}), "expected text"));
  EXPECT_TRUE(contains(refused("engine.learning_rate", std::string("fast")), "expected number, above 0"));
  EXPECT_TRUE(contains(refused("engine.betas", 0.5), "list of numbers"));
  EXPECT_TRUE(contains(refused("tags", std::vector<double>{1}), "list of texts"));
  EXPECT_EQ(settings_.engine.steps, 10);
}

TEST_F(FieldsTest, TypedTextOfAWrongTypeIsRefused) {
  for (const auto& [path, text] : {std::pair{"engine.steps", "7x"},
                                   {"engine.steps", "7.5"},
                                   {"engine.steps", ""},
                                   {"engine.steps", "99999999999999999999"},
                                   {"is_loud", "yes"},
                                   {"engine.betas", "0.5,,0.5"},
                                   {"engine.learning_rate", "0x10"},
                                   {"engine.steps", "none"}}) {
    EXPECT_THROW(type(path, text), ConfigError) << path << " = " << text;
  }
}

TEST_F(FieldsTest, RefusesValuesOutOfRange) {
  EXPECT_TRUE(contains(refused("engine.steps", int64_t{0}), "out of range; got 0, expected integer, 1 or more"));
  EXPECT_TRUE(contains(refused("engine.learning_rate", 0.0), "above 0"));
  EXPECT_TRUE(contains(refused("engine.betas", std::vector<double>{0.5, 1.0}), "0 to below 1"));
  EXPECT_TRUE(contains(refused("engine.inner.depth", int64_t{10}), "1 to 9"));
  EXPECT_TRUE(contains(refused("count", int64_t{6}), "-5 to 5"));
  EXPECT_TRUE(contains(refused("engine.learning_rate", std::nan("")), "out of range"));
  EXPECT_TRUE(contains(refused("engine.learning_rate", INFINITY), "out of range; got inf"));
  EXPECT_TRUE(contains(refused("engine.betas", std::vector<double>{NAN, 0.5}), "got [nan, 0.5]"));
}

TEST_F(FieldsTest, ANumberThatNoDoubleHoldsIsOutOfRange) {
  for (const char* text : {"1e400", "-1e400"}) {
    const std::string message = error_text<ConfigError>([&] { type("engine.learning_rate", text); });
    EXPECT_TRUE(contains(message, "engine.learning_rate] out of range; got "));
  }
}

TEST_F(FieldsTest, ANumberBelowTheSmallestDoubleIsZero) {
  const std::string message = error_text<ConfigError>([&] { type("count", "1e-400"); });
  EXPECT_TRUE(contains(message, "got 0.0, expected integer")) << message;
}

TEST_F(FieldsTest, ATextHoldsNoNul) {
  const std::string message = refused("name", std::string("a\0b", 3));
  EXPECT_TRUE(contains(message, "name] holds a NUL character"));
  EXPECT_TRUE(contains(message, "a\\u0000b"));
}

TEST_F(FieldsTest, AnUnknownChoiceNamesTheNearest) {
  EXPECT_TRUE(contains(refused("colour", std::string("gren")), "did you mean \"green\"?"));
  EXPECT_TRUE(contains(refused("size", std::string("huge")), "expected one of small | large"));
}

TEST_F(FieldsTest, AnUnknownKeyNamesTheNearestAtEveryLevel) {  // report:B45 fault:F5
  EXPECT_TRUE(contains(unknown("nmae"), "did you mean name?"));
  EXPECT_TRUE(contains(unknown("engine.stpes"), "did you mean engine.steps?"));
  EXPECT_TRUE(contains(unknown("engine.inner.deph"), "did you mean engine.inner.depth?"));
  EXPECT_TRUE(contains(unknown("engin"), "did you mean engine?"));
  EXPECT_TRUE(contains(unknown("engine.iner"), "did you mean engine.inner?"));
  EXPECT_TRUE(contains(unknown("enigne.steps"), "did you mean engine.steps?"));
}

TEST_F(FieldsTest, HyphensAreNotUnderscores) {  // report:B45
  EXPECT_TRUE(contains(unknown("engine.learning-rate"), "did you mean engine.learning_rate?"));
  EXPECT_TRUE(contains(unknown("is-loud"), "did you mean is_loud?"));
}

TEST_F(FieldsTest, AKeyInTheWrongSectionIsSentToTheRightOne) {  // report:B45
  EXPECT_TRUE(contains(unknown("steps"), "did you mean engine.steps?"));
  EXPECT_TRUE(contains(unknown("engine.depth"), "did you mean engine.inner.depth?"));
  EXPECT_TRUE(contains(unknown("engine.inner.steps"), "did you mean engine.steps?"));
}

TEST_F(FieldsTest, AKeyLikeNoOtherPointsToTheList) {
  EXPECT_TRUE(contains(unknown("engine.quux_frobnicate"), "litespark help config"));
}

TEST_F(FieldsTest, FieldsKnowTheirNameAndSection) {
  EXPECT_EQ(fields_.find("engine.inner.depth")->name(), "depth");
  EXPECT_EQ(fields_.find("engine.inner.depth")->section(), "engine.inner");
  EXPECT_EQ(fields_.find("name")->section(), "");
  EXPECT_EQ(fields_.find("engine"), nullptr);
  EXPECT_TRUE(fields_.has_section("engine.inner"));
  EXPECT_FALSE(fields_.has_section("engine.steps"));
}

TEST(Fields, ZeroMayStandForWhatIsNotKnown) {
  double watts = 1;
  const Field field = {.path = "watts", .value = &watts, .help = "How much.", .range = zero_or_between(0.5, 8)};
  for (const double value : {0.0, 0.5, 8.0}) {
    assign(field, value, "here");
    EXPECT_EQ(watts, value);
  }
  for (const double value : {1e-320, 0.49, 8.1, -1.0}) {
    EXPECT_TRUE(contains(error_text<ConfigError>([&] { assign(field, value, "here"); }), "number, 0 or 0.5 to 8"));
  }
}

}  // namespace
}  // namespace litespark
