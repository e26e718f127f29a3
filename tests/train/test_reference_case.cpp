// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "support/temporary_folder.h"
#include "train/reference_case.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

struct ReferenceCaseTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path folder = scratch.path() / "reference_case_test";
  void copy(const char* name) const {
    fs::remove_all(folder);
    fs::copy(fs::path(LITESPARK_SOURCE_DIR) / "tests/golden" / name, folder);
  }
  void describe(const std::string& json) const { std::ofstream(folder / "case.json") << json; }
};

TEST_F(ReferenceCaseTest, ReadsEveryStepOfACausalCase) {
  copy("llama-gqa");
  const ReferenceCase reference = read_reference_case(folder);
  EXPECT_EQ(reference.kind, "causal-lm");
  EXPECT_EQ(reference.tokens.size(), 3u);
  EXPECT_EQ(reference.losses.size(), 3u);
  EXPECT_EQ(reference.tokens[2].ids.size(), 99u);
  EXPECT_EQ(reference.document_lengths, (std::vector<int64_t>{33, 33, 33}));
  EXPECT_EQ(reference.beta2, 0.95);
}

TEST_F(ReferenceCaseTest, ReadsTheDocumentsOfAPackedCase) {
  copy("packed");
  const ReferenceCase reference = read_reference_case(folder);
  EXPECT_EQ(reference.document_lengths, (std::vector<int64_t>{5, 1, 17, 9}));
  EXPECT_FALSE(reference.has_update);
}

TEST_F(ReferenceCaseTest, RefusesDescriptionsThatDoNotFitTheTensors) {
  copy("llama-gqa");
  for (const char* const json : {
           "[]",
           "{}",
           R"({"kind": "causal-lm"})",
           R"({"kind": "causal-lm", "B": 0, "T": 33, "steps": 3})",
           R"({"kind": "causal-lm", "B": 4611686018427387904, "T": 4, "steps": 3})",
           R"({"kind": "causal-lm", "B": 3, "T": 33, "steps": 3, "losses": [1, 2]})",
           R"({"kind": "causal-lm", "B": 3, "T": 33, "steps": 3, "losses": [1, 2, "x"], "grad_norms": [1, 2, 3]})",
           R"({"kind": "packed-documents", "loss": 1.0})",
       }) {
    describe(json);
    EXPECT_THROW(read_reference_case(folder), Error) << json;
  }
}

TEST_F(ReferenceCaseTest, NamesTheKindThatIsNotSupported) {
  copy("llama-gqa");
  describe(R"({"kind": "causal-lm-moe"})");
  try {
    read_reference_case(folder);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("causal-lm-moe"), std::string::npos);
  }
}

}  // namespace
}  // namespace litespark
