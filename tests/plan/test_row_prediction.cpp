// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/row_prediction.h"
#include "support/error_text.h"

namespace litespark {
namespace {

constexpr const char* kHead =
    "id,source,hardware,gpus,model,layers,hidden,heads,kv_heads,ffn,vocab,seqlen,tp,pp,dp,ep,vpp,micro_batch,"
    "global_batch,recompute,precision,metric,value,unit,remarks\n";
constexpr const char* kRun = ",s,H100-80GB SXM,8,llama3.1-8b,32,4096,32,8,14336,128256,8192,1,1,8,1,1,1,128,,bf16,";

/// Predictions of rows under the usual header.
std::vector<RowPrediction> predict(const std::string& rows, const SlownessByDevice& slowness = {}) {
  static ValidationFile file;
  file = read_validation_rows(kHead + rows, "test");
  std::vector<RowPrediction> out;
  for (const ValidationRow& row : file.rows) out.push_back(predict_row(row, file, slowness));
  return out;
}

std::string run_row(const std::string& metric, const std::string& unit, const std::string& remarks = "") {
  return "r" + std::string(kRun) + metric + ",1," + unit + "," + remarks + "\n";
}

TEST(RowPrediction, EveryWayToStateAStepAgrees) {
  const auto p = predict(run_row("iteration_time", "s") + run_row("iteration_time", "ms") +
                         run_row("tokens_per_s_per_gpu", "token/s") + run_row("model_tflops_per_gpu", "TFLOP/s"));
  ASSERT_EQ(p.size(), 4u);
  for (const RowPrediction& one : p) EXPECT_EQ(one.exclusion, "");
  EXPECT_NEAR(p[1].predicted, 1000 * p[0].predicted, 1e-6 * p[1].predicted);
  EXPECT_NEAR(p[2].predicted, 128 * 8192 / 8 / p[0].predicted, 1e-6 * p[2].predicted);
  const double flops = 6 * 7.504e9 + 12.0 * 32 * 4096 * 8192;
  EXPECT_NEAR(p[3].predicted, flops * p[2].predicted / 1e12, 0.01 * p[3].predicted);
  EXPECT_TRUE(p[0].is_time && !p[2].is_time && p[0].is_one_node);
}

TEST(RowPrediction, CausalCountsAreSmaller) {
  const auto p = predict(run_row("tflops_per_gpu", "TFLOP/s", "causal attention counted") +
                         run_row("tflops_per_gpu", "TFLOP/s", "full (non-causal) attention"));
  EXPECT_LT(p[0].predicted, p[1].predicted);
}

TEST(RowPrediction, AFactorSlowsItsHardwareOnly) {
  const auto plain = predict(run_row("iteration_time", "s"));
  EXPECT_NEAR(predict(run_row("iteration_time", "s"), {{"H100", 1.2}})[0].predicted, 1.2 * plain[0].predicted, 1e-9);
  EXPECT_EQ(predict(run_row("iteration_time", "s"), {{"A100", 1.2}})[0].predicted, plain[0].predicted);
}

TEST(RowPrediction, MemoryComesInTheRowsUnit) {
  const auto p = predict(run_row("peak_memory_per_gpu", "GiB") + run_row("peak_memory", "bytes"));
  EXPECT_NEAR(p[1].predicted, p[0].predicted * 1073741824.0, 1);
}

TEST(RowPrediction, EnergyIsHoursTimesRatingTimesOverhead) {
  const auto p = predict(
      "h,LLaMA,A100-80GB 400W,,llama-65b,,,,,,,,,,,,,,,,,gpu_hours,1022362,h,\n"
      "e,LLaMA,A100-80GB 400W,,llama-65b,,,,,,,,,,,,,,,,,energy,449,MWh,PUE 1.1\n"
      "c,LLaMA,A100-80GB 400W,,llama-65b,,,,,,,,,,,,,,,,,emissions_location_based,173,tCO2e,0.385 kg/kWh\n"
      "x,other,A100,,no-hours,,,,,,,,,,,,,,,,,energy,449,MWh,\n");
  EXPECT_TRUE(contains(p[0].exclusion, "not a prediction"));
  EXPECT_NEAR(p[1].predicted, 449.8, 0.1);
  EXPECT_NEAR(p[2].predicted, 173.2, 0.1);
  EXPECT_TRUE(contains(p[3].exclusion, "device-hours"));
}

TEST(RowPrediction, BandwidthIsAskedOfTheNetworkModel) {
  const auto p = predict(
      "b,n,8x H200 NVSwitch,8,nccl all_reduce,,,,,,,,,,,,,,,,,busbw@16GiB,482,GB/s,\n"
      "b,n,8x H200 NVSwitch,8,nccl all_reduce,,,,,,,,,,,,,,,,,busbw@16GiB allgather,361,GB/s,\n"
      "b,n,two machines,8,nccl all_reduce,,,,,,,,,,,,,,,,,busbw@16GiB,361,GB/s,\n");
  EXPECT_NEAR(p[0].predicted, 482, 30);
  EXPECT_NEAR(p[1].predicted, 361, 20);
  EXPECT_TRUE(contains(p[2].exclusion, "two machines"));
}

TEST(RowPrediction, NothingIsPredictedFromNothing) {
  const auto p = predict("a" + std::string(kRun) + "iteration_time,,s,\nb" + std::string(kRun) +
                         "iteration_time,-1,s,\nc" + std::string(kRun) + "happiness,1,,\n");
  EXPECT_TRUE(contains(p[0].exclusion, "blank"));
  EXPECT_TRUE(contains(p[1].exclusion, "above 0"));
  EXPECT_TRUE(contains(p[2].exclusion, "not predicted"));
}

}  // namespace
}  // namespace litespark
