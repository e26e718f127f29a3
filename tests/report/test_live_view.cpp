// SPDX-License-Identifier: Apache-2.0
// Made-up boards, hosts and runs, and what is said of them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/live_view.h"
#include "support/error_text.h"

namespace litespark::report {
namespace {

GpuStatus busy_board() {
  return {.uuid = "GPU-aa",
          .name = "H200",
          .power_watts = 642.5,
          .power_limit_watts = 700,
          .sm_clock_mhz = 1485,
          .memory_clock_mhz = 3201,
          .temperature_celsius = 61,
          .busy_share = 1.0,
          .memory_used_bytes = int64_t{100} << 30,
          .memory_bytes = int64_t{140} << 30,
          .slow_reasons = std::vector<std::string>{},
          .pcie_sent_bytes_per_second = 1024.0 * 1024.0,
          .pcie_received_bytes_per_second = {}};
}

LiveMoment moment_of_a_run() {
  LiveMoment moment{.run_name = "runs/x", .run = RunTail{}, .gpus = {busy_board()}, .host = {}, .host_energy = {}};
  moment.run->total_steps = 200;
  moment.run->last_step = StepLine{.step = 50, .loss = 2.5, .watts = 700.0, .data_wait_seconds = 0.001};
  moment.run->step_seconds = 0.5;
  moment.host = {.busy_threads = 1.5, .num_threads = 2, .memory_used_bytes = 1 << 30, .memory_bytes = int64_t{4} << 30};
  moment.host_energy = {
      .seconds = 2.0,
      .devices = {
          {.device = "cpu", .part = EnergyPart::kCpu, .reading = {.joules = 30.0, .method = EnergyMethod::kEstimated}},
          {.device = "memory", .part = EnergyPart::kRam, .reading = {}}}};
  return moment;
}

TEST(LiveView, ARunAndItsMachineInThreeLines) {
  const std::vector<std::string> lines = live_lines(moment_of_a_run());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(contains(lines[0], "runs/x: step 50/200 (25.0 %)"));
  EXPECT_TRUE(contains(lines[0], "loss 2.5"));
  EXPECT_TRUE(contains(lines[0], "left 75 s"));
  EXPECT_TRUE(contains(lines[1], "H200 GPU-aa:  642.5 W of 700 W  SM 1485 MHz  memory 3201 MHz  61 C  busy 100.0 %"));
  EXPECT_TRUE(contains(lines[1], "100.00 GiB of 140.00 GiB  clocks free  PCIe out 1.0 MiB/s"));
  EXPECT_TRUE(contains(lines[2], "1.5 of 2 threads busy"));
  EXPECT_TRUE(contains(lines[2], "cpu 15 W (estimated)"));
}

TEST(LiveView, WhatIsUnknownIsLeftOutOrNullAndNeverZero) {  // fault:F1
  LiveMoment moment{.run_name = "",
                    .run = {},
                    .gpus = {GpuStatus{.uuid = "GPU-bb", .name = "old"}},
                    .host = {},
                    .host_energy = moment_of_a_run().host_energy};
  const std::vector<std::string> lines = live_lines(moment);
  EXPECT_EQ(lines.at(0), "old GPU-bb:");
  EXPECT_TRUE(contains(lines.at(1), "memory power (unavailable)"));
  const nlohmann::json json = nlohmann::json::parse(live_json(moment));
  EXPECT_TRUE(json["run"].is_null());
  for (const auto& [key, value] : json["gpus"][0].items()) {
    EXPECT_TRUE(key == "uuid" || key == "name" || value.is_null()) << key;
  }
  EXPECT_TRUE(json["host"]["busy_threads"].is_null());
  EXPECT_TRUE(json["host"]["power"][1]["watts"].is_null());
  EXPECT_TRUE(json["bottleneck"].is_null());
}

TEST(LiveView, TheObjectHoldsWhatTheLinesSay) {
  const std::string text = live_json(moment_of_a_run());
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(text);
  EXPECT_EQ(json["run"]["step"], 50);
  EXPECT_EQ(json["run"]["steps"], 200);
  EXPECT_EQ(json["run"]["seconds_left"], 75.0);
  EXPECT_EQ(json["gpus"][0]["power_watts"], 642.5);
  EXPECT_EQ(json["gpus"][0]["slow_reasons"], nlohmann::json::array());
  EXPECT_EQ(json["host"]["power"][0]["watts"], 15.0);
  EXPECT_EQ(json["host"]["power"][0]["method"], "estimated");
}

TEST(LiveView, TheBottleneckIsNamedByTheFirstRuleThatApplies) {
  LiveMoment moment = moment_of_a_run();
  EXPECT_EQ(bottleneck_text(moment), "");
  moment.host.busy_threads = 2.0;
  EXPECT_TRUE(contains(bottleneck_text(moment), "processor threads"));
  moment.gpus[0].busy_share = 0.3;
  EXPECT_TRUE(contains(bottleneck_text(moment), "idle"));
  moment.gpus[0].memory_used_bytes = moment.gpus[0].memory_bytes;
  EXPECT_TRUE(contains(bottleneck_text(moment), "memory"));
  moment.gpus[0].slow_reasons = slow_reason_names(0x4);
  EXPECT_EQ(bottleneck_text(moment), "GPU-aa runs at its power limit");
  moment.gpus[0].slow_reasons = slow_reason_names(0x4 | 0x40);
  EXPECT_TRUE(contains(bottleneck_text(moment), "hot"));
  moment.run->last_step->data_wait_seconds = 0.2;
  EXPECT_TRUE(contains(bottleneck_text(moment), "data.workers"));
  EXPECT_TRUE(contains(live_lines(moment).back(), "bottleneck: steps wait for data"));
}

}  // namespace
}  // namespace litespark::report
