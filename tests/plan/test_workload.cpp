// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "plan/plan_examples.h"
#include "support/error_text.h"

namespace litespark {
namespace {

using test::llama_8b_workload;

std::string refusal(const Workload& workload) {
  return error_text<ConfigError>([&] { check_workload(workload); });
}

TEST(Workload, APossibleOneIsAccepted) {
  EXPECT_NO_THROW(check_workload(llama_8b_workload()));
}

TEST(Workload, EachImpossibleLayoutIsRefusedByName) {
  const auto with = [](auto change) {
    Workload workload = llama_8b_workload();
    change(workload);
    return refusal(workload);
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(with([](Workload& w) { w.layout.dp = 0; }), "[dp]"));
  EXPECT_TRUE(has(with([](Workload& w) { w.layout.tp = 3; }), "attention heads"));
  EXPECT_TRUE(has(with([](Workload& w) { w.layout.pp = 64; }), "without a layer"));
  EXPECT_TRUE(has(with([](Workload& w) { w.layout.cp = 3; }), "the sequence"));
  EXPECT_TRUE(has(with([](Workload& w) { w.layout.ep = 2; }), "experts"));
  EXPECT_TRUE(has(with([](Workload& w) { w.layout.vpp = 2; }), "pipeline"));
  EXPECT_TRUE(has(with([](Workload& w) { w.global_batch = 100; }), "multiple"));
  EXPECT_TRUE(has(with([](Workload& w) { w.layout.dp = int64_t{1} << 62; }), "more devices"));
  EXPECT_TRUE(has(with([](Workload& w) { w.global_batch = w.micro_batch = int64_t{1} << 62; }), "overflow"));
  EXPECT_TRUE(has(with([](Workload& w) { w.seq_len = -1; }), "seqlen"));
}

TEST(Workload, EmbeddingAndHeadTakeSlotsOnlyWhereThatMakesStagesEven) {
  Workload workload = llama_8b_workload();
  workload.shape.layers = 126;
  workload.layout.pp = 8;
  workload.layout.vpp = 8;
  EXPECT_EQ(layers_of_fullest_stage(workload), 16);
  workload.shape.layers = 80;
  workload.layout.pp = 4;
  workload.layout.vpp = 5;
  EXPECT_EQ(layers_of_fullest_stage(workload), 20);
  workload.shape.layers = 30;
  workload.layout.vpp = 1;
  EXPECT_EQ(layers_of_fullest_stage(workload), 8);
}

}  // namespace
}  // namespace litespark
