// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "plan/validation_rows.h"
#include "support/error_text.h"

namespace litespark {
namespace {

ValidationFile read(const std::string& text) {
  return read_validation_rows(text, "rows.csv");
}

TEST(ValidationRows, ReadsQuotedCellsBlankCellsAndAnyLineEnd) {
  const ValidationFile file = read(
      "\xEF\xBB\xBFid,source,gpus,tp,metric,value\r\na,\"one, "
      "\"\"two\"\"\nthree\",8,,iteration_time,1.5\r\n\r\nb,x,16,2,"
      "tokens,2e3");
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.rows[0].source, "one, \"two\"\nthree");
  EXPECT_EQ(file.rows[0].gpus, 8);
  EXPECT_FALSE(file.rows[0].tp);
  EXPECT_EQ(file.rows[1].value, 2000);
  EXPECT_EQ(file.rows[1].line, 5);
}

TEST(ValidationRows, UnknownAndMissingColumnsAreNoted) {
  const ValidationFile file = read("metric,value,colour,global_bach\niteration_time,1,red,4\n");
  std::string notes;
  for (const std::string& note : file.notes) notes += note + "\n";
  for (const char* part : {"\"colour\" is not known", "did you mean global_batch?", "\"hidden\" is missing"}) {
    EXPECT_NE(notes.find(part), std::string::npos) << notes;
  }
  EXPECT_TRUE(file.rows[0].defect.empty());
}

TEST(ValidationRows, ABadNumberNamesItsRowAndColumn) {
  const ValidationFile file =
      read("id,gpus,metric,value\na,many,m,1\nb,0,m,1\nc,2.5,m,1\nd,8,m,fast\ne,1e30,m,1\nf,8,m,1\n");
  for (size_t i = 0; i < 5; ++i) {
    const ValidationRow& row = file.rows[i];
    EXPECT_NE(row.defect.find("row " + std::to_string(i + 2) + ", column"), std::string::npos) << row.defect;
  }
  EXPECT_NE(file.rows[0].defect.find("column gpus: got \"many\", expected a whole number above 0"), std::string::npos);
  EXPECT_NE(file.rows[3].defect.find("column value: got \"fast\""), std::string::npos);
  EXPECT_TRUE(file.rows[5].defect.empty());
}

TEST(ValidationRows, AnUnknownWordNamesItsRowAndColumnAndWhatIsExpected) {
  const ValidationFile file = read(
      "metric,unit,precision,recompute,value\niteration_time,furlong,,,1\niteration_time,s,int3,,1\n"
      "iteration_time,s,bf16,sometimes,1\niteration_time,s,bf16,full,1\n");
  EXPECT_EQ(file.rows[0].defect, "row 2, column unit: got \"furlong\", expected one of s, sec, ms, us, min");
  EXPECT_NE(file.rows[1].defect.find("row 3, column precision: got \"int3\""), std::string::npos);
  EXPECT_NE(file.rows[2].defect.find("row 4, column recompute: got \"sometimes\""), std::string::npos);
  EXPECT_TRUE(file.rows[3].defect.empty());
}

TEST(ValidationRows, TooManyCellsPointAtAComma) {
  EXPECT_NE(read("metric,value\na,1,2\n").rows[0].defect.find("comma"), std::string::npos);
}

TEST(ValidationRows, AFileThatIsNoTableIsRefused) {
  const auto refusal = [](const char* text) { return error_text<DataError>([&] { read(text); }); };
  EXPECT_NE(refusal("").find("empty"), std::string::npos);
  EXPECT_NE(refusal("\n\n").find("empty"), std::string::npos);
  EXPECT_NE(refusal("metric,gpus\n").find("\"value\""), std::string::npos);
  EXPECT_NE(refusal("metric,value\n\"open,1\n").find("line 2"), std::string::npos);
}

}  // namespace
}  // namespace litespark
