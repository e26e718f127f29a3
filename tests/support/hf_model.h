// SPDX-License-Identifier: Apache-2.0
// A whole small model in memory as f32, read from a folder and written to one.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/hf_config.h"
#include "io/hf_folder.h"

namespace litespark::test {

struct HfModel {
  ModelConfig config;
  ParamTable table;
  std::vector<std::vector<float>> values;  ///< one a parameter, as stored
};

inline HfModel load_hf_model(const std::filesystem::path& folder) {
  HfModel model;
  model.config = read_hf_config(folder / "config.json");
  model.table = make_param_table(model.config);
  HfFolder files = HfFolder::open(folder);
  files.check(model.config, model.table);
  for (const ParamSpec& param : model.table.params) {
    model.values.emplace_back(static_cast<size_t>(param.shape.num_elements()));
    files.read_parameter(param, model.values.back());
  }
  return model;
}

inline void store_hf_model(const std::filesystem::path& folder, const HfModel& model,
                           const HfWriteOptions& options = {}) {
  const ProvidePart provide = [&](const ParamSpec& param, const ParamPart& part, const ConsumeValues& consume) {
    const auto index = static_cast<size_t>(&param - model.table.params.data());
    const int64_t row = param.shape.num_elements() / param.shape[0];
    const std::span<const float> values = model.values[index];
    consume(values.subspan(static_cast<size_t>(part.first_row * row), static_cast<size_t>(part.shape.num_elements())));
  };
  write_hf_folder(folder, model.config, model.table, provide, options);
}

inline void expect_same_bits(const HfModel& a, const HfModel& b) {
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    ASSERT_EQ(a.values[i].size(), b.values[i].size());
    EXPECT_EQ(std::memcmp(a.values[i].data(), b.values[i].data(), a.values[i].size() * sizeof(float)), 0)
        << a.table.params[i].name;
  }
}

}  // namespace litespark::test
