// SPDX-License-Identifier: Apache-2.0
// The four forms; NFC by stretches against utf8proc on whole texts.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

#include "token/unicode.h"
#include "token/unicode_normalize.h"

namespace litespark::token {
namespace {

std::string form(NormalForm which, std::string_view text) {
  std::string buffer;
  return std::string(to_normal_form(which, text, &buffer));
}

std::string whole_nfc(const std::string& text) {
  utf8proc_uint8_t* mapped = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  std::string result(reinterpret_cast<const char*>(mapped));
  std::free(mapped);
  return result;
}

TEST(UnicodeNormalize, GivesTheFourForms) {
  EXPECT_EQ(form(NormalForm::kNfc, "e\u0301 \u1112\u1161\u11AB Å"), "é 한 Å");
  EXPECT_EQ(form(NormalForm::kNfd, "é한"), "e\u0301\u1112\u1161\u11AB");
  EXPECT_EQ(form(NormalForm::kNfkc, "ﬁ①e\u0301"), "fi1é");
  EXPECT_EQ(form(NormalForm::kNfkd, "ﬁé"), "fie\u0301");
}

TEST(UnicodeNormalize, ReturnsTextThatIsInFormWithoutACopy) {
  const std::string text = "plain, naïve 北京 Привет 👋";
  std::string buffer;
  EXPECT_EQ(to_normal_form(NormalForm::kNfc, text, &buffer).data(), text.data());
  EXPECT_EQ(to_normal_form(NormalForm::kNfkd, "ascii", &buffer), "ascii");
  EXPECT_TRUE(buffer.empty());
}

TEST(UnicodeNormalize, KeepsNulCharacters) {
  const std::string text("a\0e\u0301\0", 6);
  EXPECT_EQ(form(NormalForm::kNfc, text), std::string("a\0é\0", 5));
}

TEST(UnicodeNormalize, ComposesStretchesAsWholeTexts) {
  std::mt19937 random(3);
  const std::u32string pool =
      U"aeoAEO \u0301\u0308\u0323\u0327\u1100\u1112\u1161\u1175\u11A8\uAC00\u09C7\u09BE\u0B47\u0B3E\u3046\u3099"
      U"\u0958\u212B\u2126\U0001D15E\U0001D165\u0340\u0344\uFB1D\u05B4é中";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t count = random() % 10 + 1; count > 0; --count) append_utf8(pool[random() % pool.size()], &text);
    ASSERT_EQ(form(NormalForm::kNfc, text), whole_nfc(text)) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace litespark::token
