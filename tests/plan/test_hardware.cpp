// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "core/error.h"
#include "core/json_text.h"
#include "plan/hardware.h"
#include "support/error_text.h"

namespace litespark {
namespace {

TEST(Hardware, IsFoundByNameInAnyCase) {
  EXPECT_EQ(hardware_named("h200").memory_tbps, 4.8);
  EXPECT_EQ(hardware_named("A100").bf16_tflops, 312);
  for (const Hardware& hardware : known_hardware()) EXPECT_NO_THROW(hardware.validate()) << hardware.name;
}

TEST(Hardware, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const std::string text = error_text<ConfigError>([] { hardware_named("h201"); });
  for (const char* part : {"cluster.hardware", "h201", "b200", "did you mean h20"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(Hardware, FreeTextCorrectsTheDataSheet) {
  const Hardware capped = hardware_in_text("H100-96GB HBM2e 2.4 TB/s, 500 W cap, 400G/GPU (Grand Teton)");
  const Hardware sheet = hardware_named("h100");
  EXPECT_EQ(capped.name, "H100");
  EXPECT_EQ(capped.memory_tbps, 2.4);
  EXPECT_GT(capped.memory_gib, 90);
  EXPECT_LT(capped.matmul_efficiency, sheet.matmul_efficiency);
  EXPECT_LT(capped.attention.flash2, sheet.attention.flash2);
  EXPECT_EQ(hardware_in_text("A100-80GB SXM, 1600 Gb/s RoCE per node").network_gbps, 25);
  EXPECT_LT(hardware_in_text("A100 PCIe 40GB").link_gbps, 100);
  EXPECT_EQ(hardware_in_text("GB200 NVL72").name, "GB200");
  EXPECT_EQ(hardware_in_text("8x B200 NVLink5").name, "B200");
}

TEST(Hardware, TextWithoutAKnownMachineHasNoName) {
  EXPECT_EQ(hardware_in_text("TPU v5p-128").name, "");
  EXPECT_EQ(hardware_in_text("GH100").name, "");
  EXPECT_EQ(hardware_in_text("H1000").name, "");
  EXPECT_EQ(hardware_in_text("8xH100-80GB").name, "H100");
  EXPECT_EQ(hardware_in_text("A100x8").name, "A100");
}

TEST(Hardware, RanksOfOneMachineShareIt) {
  const Hardware cpu = hardware_named("cpu");
  const Hardware part = shared_hardware(cpu, 4);
  EXPECT_DOUBLE_EQ(4 * part.bf16_tflops, cpu.bf16_tflops);
  EXPECT_DOUBLE_EQ(4 * part.memory_gib, cpu.memory_gib);
  EXPECT_DOUBLE_EQ(4 * part.memory_tbps, cpu.memory_tbps);
  EXPECT_DOUBLE_EQ(4 * part.watts, cpu.watts);
  EXPECT_EQ(part.link_gbps, cpu.link_gbps);
  EXPECT_EQ(part.devices_a_node, 4);
}

TEST(Hardware, ARunOnHalfOfItsNodesHasTheLinkOfThatHalf) {
  const Hardware h200 = hardware_named("h200");
  EXPECT_EQ(hardware_on_nodes(h200, 16, 1).devices_a_node, 8);
  const Hardware half = hardware_on_nodes(h200, 16, 4);
  EXPECT_EQ(half.devices_a_node, 4);
  EXPECT_DOUBLE_EQ(half.node_watts, h200.node_watts / 2);
  EXPECT_TRUE(
      contains(error_text<ConfigError>([&] { hardware_on_nodes(h200, 32, 2); }),
               "[cluster.nodes] leaves more devices on a node than one of a H200 has; got 16, expected at most 8"));
}

TEST(Hardware, OnlyHopperGpusRunAttentionOnEightBitFloats) {
  for (const char* name : {"h100", "h200", "h800", "h20"}) EXPECT_EQ(hardware_named(name).runs_fp8_attention(), true);
  for (const Hardware& hardware : known_hardware()) {
    ASSERT_NE(hardware.compute_capability, "") << hardware.name;
    EXPECT_EQ(hardware.runs_fp8_attention(), hardware.name.starts_with("H")) << hardware.name;
  }
  EXPECT_EQ(Hardware{}.runs_fp8_attention(), std::nullopt);  // a file that does not say it
}

TEST(Hardware, AComputeCapabilityIsTwoNumbersOrNone) {
  Hardware hardware = hardware_named("h100");
  for (const char* sound : {"9.0", "10.3", "none", ""}) {
    hardware.compute_capability = sound;
    EXPECT_NO_THROW(hardware.validate()) << sound;
  }
  for (const char* wrong :
       {"9", "-9.0", "9.0.1", "nan", "sm_90", "9.", ".0", "1e9", " 9.0", "12345.0", "09.0", "9.00", "0.0", "100.0"}) {
    hardware.compute_capability = wrong;
    const std::string text = error_text<ConfigError>([&] { hardware.validate(); });
    EXPECT_NE(text.find("hardware.compute_capability"), std::string::npos) << wrong << ": " << text;
  }
}

TEST(Hardware, WithoutAPeakThereIsNoPlan) {
  Hardware hardware = hardware_named("h100");
  hardware.bf16_tflops = 0;
  EXPECT_NE(error_text<ConfigError>([&] { hardware.validate(); }).find("bf16_tflops"), std::string::npos);
}

TEST(Hardware, FiguresThatWouldPassEveryNumberAreOutOfRange) {
  Hardware hardware = hardware_named("h100");
  const Fields fields = Fields::of(hardware);
  for (const Field& field : fields.list()) {
    if (!std::holds_alternative<double*>(field.value)) continue;
    for (const double value : {1e-320, 1e-300, 1e300, -1.0}) {
      if (value > 0 && value < 1 && field.path == "attention.half_length") continue;  // is added to a length
      const std::string text = error_text<ConfigError>([&] { assign(field, value, "mine.toml line 7"); });
      EXPECT_TRUE(contains(text, "[mine.toml line 7: " + field.path + "] out of range; got " + json_number(value)));
    }
  }
  EXPECT_NO_THROW(assign(*fields.find("watts"), 0.0, ""));  // not known
}

TEST(Hardware, WhatAFileLeavesOutIsMissedInThatFile) {
  Hardware hardware = hardware_named("h100");
  hardware.memory_gib = 0;
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { hardware.validate("mine.toml"); }),
                       "[mine.toml: memory_gib] is needed to plan a run; got 0, expected above 0"));
}

TEST(Hardware, FiguresInATextThatNoMachineHasCorrectNothing) {
  const Hardware sheet = hardware_named("h100");
  const std::string digits(250, '9');
  for (const std::string& text : {"H100 " + digits + "GB", "H100 " + digits + " TB/s", std::string("H100 0 TB/s"),
                                  std::string("H100 0.0000000001 W cap"), "H100 " + digits + "G/GPU"}) {
    Hardware found = hardware_in_text(text);
    Hardware known = sheet;
    EXPECT_EQ(to_toml(Fields::of(found)), to_toml(Fields::of(known))) << text;
  }
}

TEST(Hardware, IsAGpuWhereSomethingSaysSo) {
  for (const Hardware& hardware : known_hardware()) EXPECT_EQ(hardware.is_gpu(), hardware.name != "CPU");
  EXPECT_EQ(Hardware{}.is_gpu(), std::nullopt);
  EXPECT_EQ(Hardware{.multiprocessors = 1}.is_gpu(), true);
  EXPECT_EQ(Hardware{.compute_capability = "9.0"}.is_gpu(), true);
}

}  // namespace
}  // namespace litespark
