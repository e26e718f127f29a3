// SPDX-License-Identifier: Apache-2.0
// The run file's keys: every one is explained, the defaults lie in their own ranges.
#include <gtest/gtest.h>

#include <set>

#include "spec/run_config.h"

namespace litespark {
namespace {

class RunKeys : public testing::Test {
 protected:
  RunConfig config_;
  Fields fields_ = Fields::of(config_);
};

TEST_F(RunKeys, HaveHelpAndUniquePaths) {
  std::set<std::string> seen;
  for (const Field& field : fields_.list()) {
    EXPECT_GT(field.help.size(), 10u) << field.path;
    EXPECT_TRUE(seen.insert(field.path).second) << field.path;
  }
  for (const Section& section : fields_.sections()) EXPECT_GT(section.help.size(), 5u) << section.path;
}

TEST_F(RunKeys, DefaultsAreAcceptedByTheirOwnFields) {
  for (const Field& field : fields_.list()) {
    std::string text = value_text(field);
    const bool is_text = std::holds_alternative<std::string*>(field.value);
    const bool is_choice = std::holds_alternative<Choice>(field.value);
    if (text.empty()) continue;
    if (is_text || is_choice) text = text.substr(1, text.size() - 2);
    EXPECT_NO_THROW(assign_text(field, text, "default")) << field.path;
  }
}

TEST_F(RunKeys, CoverTheSectionsOfTheDesign) {
  for (const char* section : {"model", "model.rope_scaling", "data", "train", "optim", "schedule", "precision",
                              "memory", "device", "checkpoint", "meter", "cluster"}) {
    EXPECT_TRUE(fields_.has_section(section)) << section;
  }
  for (const char* key : {"task", "seed", "deterministic", "out"}) EXPECT_NE(fields_.find(key), nullptr) << key;
}

TEST_F(RunKeys, ChoicesMatchTheirEnumerators) {
  const auto choose = [&](const char* path, const char* text) { assign_text(*fields_.find(path), text, "test"); };
  choose("task", "grpo");
  choose("schedule.name", "inverse_sqrt");
  choose("memory.recompute", "every-k");
  choose("precision.compute", "bf16");
  choose("precision.residual", "fp32");
  choose("precision.matmul", "fp8-emulated");
  choose("precision.fp8_gradient", "e5m2");
  choose("precision.fp8_scaling", "row");
  choose("precision.attention", "fp8-emulated");
  choose("model.model_type", "qwen3");
  choose("model.rope_scaling.rope_type", "llama3");
  choose("data.source", "synthetic");
  choose("data.packing", "stream");
  choose("device.kind", "cuda");
  choose("checkpoint.signal", "SIGHUP");
  EXPECT_EQ(config_.task, Task::kGrpo);
  EXPECT_EQ(config_.schedule.name, ScheduleKind::kInverseSqrt);
  EXPECT_EQ(config_.memory.recompute, Recompute::kEveryK);
  EXPECT_EQ(config_.precision.compute, DType::kBF16);
  EXPECT_EQ(config_.precision.residual, ResidualPrecision::kF32);
  EXPECT_EQ(config_.precision.matmul, MatmulPrecision::kFp8Emulated);
  EXPECT_EQ(config_.precision.fp8_gradient, Fp8Gradient::kE5M2);
  EXPECT_EQ(config_.precision.fp8_scaling, Fp8Scaling::kRow);
  EXPECT_EQ(config_.precision.attention, AttentionPrecision::kFp8Emulated);
  EXPECT_EQ(config_.model.model_type, ModelFamily::kQwen3);
  EXPECT_EQ(config_.model.rope_scaling.rope_type, RopeScaling::kLlama3);
  EXPECT_EQ(config_.data.source, DataSource::kSynthetic);
  EXPECT_EQ(config_.data.packing, Packing::kStream);
  EXPECT_EQ(config_.device.kind, DeviceKind::kCuda);
  EXPECT_EQ(config_.checkpoint.signal, SaveSignal::kHup);
}

}  // namespace
}  // namespace litespark
