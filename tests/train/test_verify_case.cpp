// SPDX-License-Identifier: Apache-2.0
// The golden cases of PyTorch and transformers through the real path.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "ops/cpu/cpu_backend.h"
#include "support/temporary_folder.h"
#include "train/verify_case.h"

namespace litespark {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(LITESPARK_SOURCE_DIR) / "tests/golden";

class GoldenCase : public testing::TestWithParam<const char*> {};

void expect_pass(const VerifyReport& report) {
  EXPECT_TRUE(report.pass());
  EXPECT_GT(report.checks.size(), 10u);
  for (const VerifyCheck& check : report.checks) {
    EXPECT_TRUE(check.pass) << check.name << " error " << check.error << " limit " << check.limit;
  }
}

TEST_P(GoldenCase, MatchesTransformersInF32) {
  const auto backend = make_cpu_backend({});
  expect_pass(verify_case(kGolden / GetParam(), *backend, DType::kF32));
}

TEST_P(GoldenCase, MatchesTransformersInBf16WithinItsRounding) {
  const auto backend = make_cpu_backend({});
  expect_pass(verify_case(kGolden / GetParam(), *backend, DType::kBF16));
}

INSTANTIATE_TEST_SUITE_P(Verify, GoldenCase,
                         testing::Values("llama-gqa", "llama-tied-rope3", "llama-old-config", "mistral-window",
                                         "qwen2-bias", "qwen3-qknorm", "packed"),
                         [](const auto& golden) {
                           std::string name = golden.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

struct ChangedCase : testing::Test {
  const test::TemporaryFolder scratch;
  std::filesystem::path folder = scratch.path() / "changed_case";
  void SetUp() override {
    std::filesystem::remove_all(folder);
    std::filesystem::copy(kGolden / "llama-gqa", folder);
  }
  void replace_in(const char* file, const std::string& from, const std::string& to) const {
    std::ifstream in(folder / file);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    std::ofstream(folder / file) << text.replace(at, from.size(), to);
  }
};

TEST_F(ChangedCase, AWrongThetaFailsTheChecks) {  // report:B19
  replace_in("config.json", "10000.0", "500000.0");
  const auto backend = make_cpu_backend({});
  EXPECT_FALSE(verify_case(folder, *backend, DType::kF32).pass());
}

TEST_F(ChangedCase, AnotherKindIsNotSupportedYet) {
  replace_in("case.json", "causal-lm", "reward");
  const auto backend = make_cpu_backend({});
  EXPECT_THROW(verify_case(folder, *backend, DType::kF32), ConfigError);
}

TEST_F(ChangedCase, AMissingNumberIsADataError) {
  replace_in("case.json", "\"losses\"", "\"loses\"");
  const auto backend = make_cpu_backend({});
  EXPECT_THROW(verify_case(folder, *backend, DType::kF32), DataError);
}

}  // namespace
}  // namespace litespark
