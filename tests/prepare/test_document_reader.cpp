// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "prepare/compressed_files.h"
#include "prepare/document_reader.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

struct DocumentReaderTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path path = scratch.path() / "document_reader_test";
  std::vector<std::string> read(const std::string& text, DocumentOptions options = {}) const {
    write_plain(path, text);
    DocumentReader reader(path, options);
    std::vector<std::string> documents;
    std::string document;
    while (reader.next(document)) documents.push_back(document);
    return documents;
  }
};

using Texts = std::vector<std::string>;

TEST_F(DocumentReaderTest, SplitsTextAsAsked) {
  EXPECT_EQ(read("a\nb\n\nc\n"), (Texts{"a\nb\n\nc\n"}));
  EXPECT_EQ(read("a\nb\n\nc", {.split = DocumentSplit::kLine}), (Texts{"a", "b", "c"}));
  EXPECT_EQ(read("\n\na\nb\n \nc\n\n", {.split = DocumentSplit::kParagraph}), (Texts{"a\nb", "c"}));
  EXPECT_EQ(read(""), Texts{});
  EXPECT_EQ(read("\n\n", {.split = DocumentSplit::kLine}), Texts{});
}

TEST_F(DocumentReaderTest, ReadsTheTextFieldOfJsonLines) {
  EXPECT_EQ(read("{\"text\": \"a\\nb\"}\n\n{\"id\": 1, \"text\": \"\\u00e9\"}"), (Texts{"a\nb", "\xc3\xa9"}));
  EXPECT_EQ(read("  {\"body\": \"x\", \"text\": \"y\"}\n", {.text_key = "body"}), (Texts{"x"}));
  EXPECT_EQ(read("{\"text\": \"\"}\n{\"text\": \"z\"}"), (Texts{"z"}));
  EXPECT_EQ(read("{not json}", {.format = TextFormat::kText}), (Texts{"{not json}"}));
}

TEST_F(DocumentReaderTest, NamesTheLineThatIsWrong) {
  try {
    read("{\"text\": \"a\"}\n{\"text\": 5}\n");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(read("{\"text\": \"a\"}\n{\"te"), DataError);
  EXPECT_THROW(read("{\"other\": \"a\"}"), DataError);
  EXPECT_THROW(read("{\"text\": \"a\", \"text\": \"b\"}"), DataError);  // two readers may take different ones
}

TEST_F(DocumentReaderTest, RefusesDocumentsBeyondTheLimit) {  // fault:D9
  EXPECT_THROW(read(std::string(3 << 20, 'x'), {.max_document_bytes = 1 << 20}), DataError);
  EXPECT_THROW(read("{\"text\": \"" + std::string(3 << 20, 'x'), {.max_document_bytes = 1 << 20}), DataError);
  EXPECT_EQ(read(std::string(3 << 20, 'x')).at(0).size(), size_t{3} << 20);
}

TEST_F(DocumentReaderTest, KeepsNulBytesAndInvalidUtf8) {  // fault:D9
  const std::string odd("a\0b\xff", 4);
  EXPECT_EQ(read(odd), (Texts{odd}));
}

}  // namespace
}  // namespace litespark
