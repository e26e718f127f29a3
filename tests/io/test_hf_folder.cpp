// SPDX-License-Identifier: Apache-2.0
// Folders of the golden cases in, out and in again; then folders that are wrong in one respect.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "io/hf_config.h"
#include "io/hf_folder.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;
using test::golden_folder;
using test::TemporaryFolder;

struct Model {
  ModelConfig config;
  ParamTable table;
  std::vector<std::vector<float>> values;  ///< one a parameter, as stored
};

Model load(const fs::path& folder) {
  Model model;
  model.config = read_hf_config(folder / "config.json");
  model.table = make_param_table(model.config);
  const HfFolder files = HfFolder::open(folder);
  files.check(model.config, model.table);
  for (const ParamSpec& param : model.table.params) {
    model.values.emplace_back(static_cast<size_t>(param.shape.num_elements()));
    files.read_parameter(param, model.values.back());
  }
  return model;
}

void store(const fs::path& folder, const Model& model, const HfWriteOptions& options = {}) {
  const ProvidePart provide = [&](const ParamSpec& param, const ParamPart& part, const ConsumeValues& consume) {
    const auto index = static_cast<size_t>(&param - model.table.params.data());
    const int64_t row = param.shape.num_elements() / param.shape[0];
    const std::span<const float> values = model.values[index];
    consume(values.subspan(static_cast<size_t>(part.first_row * row), static_cast<size_t>(part.shape.num_elements())));
  };
  write_hf_folder(folder, model.config, model.table, provide, options);
}

void expect_same_bits(const Model& a, const Model& b) {
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    ASSERT_EQ(a.values[i].size(), b.values[i].size());
    EXPECT_EQ(std::memcmp(a.values[i].data(), b.values[i].data(), a.values[i].size() * sizeof(float)), 0)
        << a.table.params[i].name;
  }
}

class GoldenFolder : public testing::TestWithParam<const char*> {};

TEST_P(GoldenFolder, ComesBackBitForBitAfterExport) {
  const Model original = load(golden_folder(GetParam()));
  const TemporaryFolder temporary;
  store(temporary.path(), original);
  const Model again = load(temporary.path());
  EXPECT_EQ(again.config, original.config);
  expect_same_bits(again, original);
}

INSTANTIATE_TEST_SUITE_P(HfFolder, GoldenFolder,
                         testing::Values("llama-gqa", "llama-tied-rope3", "llama-old-config", "mistral-window",
                                         "qwen2-bias", "qwen3-qknorm", "packed"));

}  // namespace
}  // namespace litespark
