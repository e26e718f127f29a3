// SPDX-License-Identifier: Apache-2.0
// `litespark plan` for hardware that is not here.
#include <gtest/gtest.h>

#include <filesystem>

#include "io/run_file.h"
#include "plan/hardware.h"
#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

std::string config(const std::string& name) {
  return std::string(LITESPARK_SOURCE_DIR) + "/configs/" + name;
}

ProgramResult plan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  return run_litespark(arguments);
}

TEST(PlanForecast, SaysTimeMemoryEnergyAndMoney) {
  const ProgramResult result = plan({config("llama-3.2-1b.toml"), "--hardware", "h100", "--gpus", "8"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const char* part : {"forecast for 8 x H100, dp 8", "sum of gradients", "tokens/s", "memory of a device", "kWh",
                           "kg CO2e", "dollars"}) {
    EXPECT_TRUE(contains(result.output, part));
  }
}

TEST(PlanForecast, JsonAndCsvCarryTheSameStep) {
  const std::string json = plan({config("llama-3.2-1b.toml"), "--json"}).output;
  EXPECT_TRUE(contains(json, "\"forecast\": {\"hardware\": \"H200\""));
  const std::string csv = plan({config("llama-3.2-1b.toml"), "--csv"}).output;
  EXPECT_TRUE(csv.starts_with("hardware,gpus,dp"));
  EXPECT_TRUE(contains(csv, "\nH200,1,1,1,1,1,1,1,"));
}

TEST(PlanForecast, NodesDecideWhatTheFastLinkJoins) {
  const auto gradients = [](const std::string& nodes) {
    const ProgramResult result = plan({config("llama-3.2-1b.toml"), "--gpus=8", "--cluster.nodes=" + nodes, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    const std::string key = "\"sum_of_gradients_seconds\": ";
    return std::stod(result.output.substr(result.output.find(key) + key.size()));
  };
  EXPECT_GT(gradients("4"), 1.5 * gradients("1"));
  const ProgramResult full = plan({config("llama-3.2-1b.toml"), "--gpus=32", "--cluster.nodes=2"});
  EXPECT_EQ(full.exit_code, 2);
  EXPECT_TRUE(contains(full.errors, "[cluster.nodes] leaves more devices on a node")) << full.errors;
}

TEST(PlanForecast, RanksOnACpuShareItsCores) {
  const auto rate = [](const std::string& gpus, const std::string& accumulation) {
    const ProgramResult result = plan(
        {config("5m.toml"), "--device.kind=cpu", "--gpus=" + gpus, "--json", "--train.accumulation=" + accumulation});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    const std::string key = "\"tokens_per_second\": ";
    return std::stod(result.output.substr(result.output.find(key) + key.size()));
  };
  const double one = rate("1", "4");
  EXPECT_LT(rate("2", "2"), one) << "two halves, and the sum of gradients";
  EXPECT_GT(rate("2", "2"), 0.5 * one);
}

TEST(PlanForecast, AHardwareFileIsReadAndTheExampleIsTheH200) {
  Hardware read;
  read_toml(test::file_text(config("hardware/h200.toml")), "h200.toml", Fields::of(read));
  Hardware known = hardware_named("h200");
  EXPECT_EQ(to_toml(Fields::of(read)), to_toml(Fields::of(known)));
  const test::TemporaryFolder folder;
  const auto file =
      folder.write("mine.toml", "name = \"mine\"\nbf16_tflops = 500\nmemory_gib = 40\nmemory_tbps = 2\nwatts = 300\n");
  const ProgramResult result = plan({config("llama-3.2-1b.toml"), "--hardware", file.string()});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "forecast for 1 x mine"));
  EXPECT_TRUE(contains(result.output, "n/a"));  // its price
}

TEST(PlanForecast, SearchSaysWhatFitsAndWhyTheRestDoesNot) {
  const ProgramResult result =
      plan({config("llama-3.2-3b.toml"), "--gpus", "16", "--train.accumulation=64", "--search", "--goal=greenest"});
  EXPECT_TRUE(contains(result.output + result.errors, "ruled out"));
}

TEST(PlanForecast, ATraceOfOneStepIsWritten) {
  const test::TemporaryFolder folder;
  const auto trace = folder.path() / "step.json";
  const ProgramResult result = plan({config("llama-3.2-1b.toml"), "--gpus=4", "--cluster.pp=4", "--train.micro_batch=1",
                                     "--train.accumulation=8", "--trace=" + trace.string(), "--spread=0.02",
                                     "--page=" + (folder.path() / "plan.html").string()});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(test::file_text(trace), "\"name\": \"F7\""));
  EXPECT_TRUE(contains(test::file_text(folder.path() / "plan.html"), "pipeline waiting"));
}

TEST(PlanForecast, SixteenThousandDevicesAreForecast) {
  const ProgramResult result =
      plan({config("llama-3.2-3b.toml"), "--gpus=16384", "--cluster.tp=8", "--cluster.pp=4", "--search", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "\"gpus\": 16384"));
}

/// A plan with attention on 8-bit floats, of heads of 128 unless it is said otherwise.
ProgramResult plan_fp8_attention(const std::vector<std::string>& more, const std::string& run = "llama-3.2-3b.toml") {
  std::vector<std::string> arguments = {config(run), "--precision.attention=fp8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return plan(arguments);
}

TEST(PlanForecast, AttentionOnEightBitFloatsIsRefusedForWhatIsNoHopperGpuWithHeadsOf128) {
  const ProgramResult hopper = plan_fp8_attention({});
  EXPECT_EQ(hopper.exit_code, 0) << hopper.errors;
  for (const auto& [hardware, found] :
       std::vector<std::pair<std::string, std::string>>{{"a100", "hardware A100 (compute capability 8.0)"},
                                                        {"l40s", "hardware L40S (compute capability 8.9)"},
                                                        {"b200", "hardware B200 (compute capability 10.0)"},
                                                        {"b300", "hardware B300 (compute capability 10.3)"}}) {
    const ProgramResult result = plan_fp8_attention({"--hardware", hardware});
    EXPECT_EQ(result.exit_code, 2) << hardware;
    EXPECT_TRUE(contains(result.errors,
                         "[precision.attention] fp8 needs a Hopper GPU (compute capability 9.0) and heads "
                         "of 128; got " +
                             found + ", model.head_dim = 128"))
        << result.errors;
    EXPECT_TRUE(contains(result.errors, "precision.attention = \"compute\"")) << result.errors;
  }
  const ProgramResult other_heads = plan_fp8_attention({}, "llama-160m.toml");
  EXPECT_EQ(other_heads.exit_code, 2);
  EXPECT_TRUE(contains(other_heads.errors, "model.head_dim = 64")) << other_heads.errors;
  EXPECT_TRUE(contains(other_heads.errors, "[precision.attention] fp8 needs a Hopper GPU")) << other_heads.errors;
}

TEST(PlanForecast, EightBitMatmulsAreRefusedForHardwareThatHasNone) {
  for (const char* hardware : {"a100", "v100"}) {
    const ProgramResult result = plan({config("llama-3.2-1b.toml"), "--hardware", hardware, "--precision.matmul=fp8"});
    EXPECT_EQ(result.exit_code, 2) << hardware;
    EXPECT_TRUE(
        contains(result.errors, "[precision.matmul] fp8 needs a device that multiplies 8-bit floats; got hardware "))
        << result.errors;
    EXPECT_TRUE(contains(result.errors, "(fp8_tflops = 0)")) << result.errors;
  }
  for (const char* hardware : {"h100", "l40s", "b200"}) {
    const ProgramResult result = plan({config("llama-160m.toml"), "--hardware", hardware, "--precision.matmul=fp8"});
    EXPECT_EQ(result.exit_code, 0) << hardware << result.errors;
  }
}

TEST(PlanForecast, AttentionOnEightBitFloatsIsPlannedWithAWarningWhereTheCapabilityIsNotStated) {
  const test::TemporaryFolder folder;
  const std::string figures = "bf16_tflops = 500\nmemory_gib = 140\nmemory_tbps = 2\nwatts = 300\n";
  const auto silent = folder.write("silent.toml", "name = \"mine\"\n" + figures);
  const ProgramResult unknown = plan_fp8_attention({"--hardware", silent.string()});
  EXPECT_EQ(unknown.exit_code, 0) << unknown.errors;
  EXPECT_TRUE(contains(unknown.errors, "warning: compute_capability of mine is not stated")) << unknown.errors;
  const auto hopper = folder.write("hopper.toml", "name = \"mine\"\ncompute_capability = \"9.0\"\n" + figures);
  const ProgramResult known = plan_fp8_attention({"--hardware", hopper.string()});
  EXPECT_EQ(known.exit_code, 0) << known.errors;
  EXPECT_FALSE(contains(known.errors, "compute_capability")) << known.errors;
}

TEST(PlanForecast, WhatCannotBeIsRefusedWithItsReason) {
  const auto refused = [](std::vector<std::string> arguments, const char* part) {
    arguments.insert(arguments.begin(), config("llama-3.2-1b.toml"));
    const ProgramResult result = plan(arguments);
    EXPECT_EQ(result.exit_code, 2) << part;
    EXPECT_TRUE(contains(result.errors, part));
  };
  refused({"--gpus=0"}, "gpus");
  refused({"--gpus=3", "--cluster.tp=3"}, "attention heads");
  refused({"--gpus=8", "--cluster.tp=3"}, "cluster");
  refused({"--hardware=h201"}, "names no machine that is known");
  refused({"--hardware=no-such.toml"}, "is not a file");
  refused({"--gpus=32", "--cluster.pp=32"}, "without a layer");
  const test::TemporaryFolder folder;
  const auto file = folder.write("empty.toml", "name = \"empty\"\n");
  refused({"--hardware", file.string()}, "bf16_tflops");
}

TEST(PlanForecast, FiguresOfAHardwareFileThatNoMachineHasAreRefusedByFileLineAndKey) {
  const test::TemporaryFolder folder;
  const auto file =
      folder.write("mine.toml", "name = \"mine\"\nbf16_tflops = 1e-320\nmemory_gib = 40\nmemory_tbps = 2\n");
  const ProgramResult tiny = plan({config("llama-3.2-1b.toml"), "--hardware", file.string()});
  EXPECT_EQ(tiny.exit_code, 2);
  EXPECT_TRUE(contains(tiny.errors,
                       "mine.toml line 2: bf16_tflops] out of range; got 1e-320, expected number, 0 or "
                       "1e-06 to 1e+09"));
  const auto silent = folder.write("silent.toml", "name = \"mine\"\nbf16_tflops = 1\nmemory_gib = 40\n");
  const ProgramResult missing = plan({config("llama-3.2-1b.toml"), "--hardware", silent.string()});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(contains(missing.errors, "silent.toml: memory_tbps] is needed to plan a run; got 0"));
  const auto free = folder.write("free.toml", "bf16_tflops = 1\nmemory_gib = 40\nmemory_tbps = 1\n");
  const ProgramResult powerless = plan({config("llama-3.2-1b.toml"), "--hardware", free.string()});
  EXPECT_EQ(powerless.exit_code, 2);
  EXPECT_TRUE(contains(powerless.errors, "free.toml: watts] is needed for energy; got 0, expected above 0"));
}

TEST(PlanForecast, NamesFromFilesCannotSteerATerminal) {
  const test::TemporaryFolder folder;
  const std::string figures = "bf16_tflops = 500\nmemory_gib = 140\nmemory_tbps = 2\nwatts = 300\n";
  const auto hardware = folder.write("mine.toml", "name = \"a\\u001b[2J\\nb\"\n" + figures);
  const auto widths = folder.write("widths.toml",
                                   "device = \"c\\u001b[2J\"\nrows = 64\nhidden = 2048\n"
                                   "widths = [8192]\nseconds = [0.1]\n");
  const ProgramResult shown = plan({config("llama-3.2-1b.toml"), "--hardware", hardware.string(), "--widths",
                                    widths.string(), "--precision.attention=fp8", "--model.head_dim=128",
                                    "--cost.market_intensity=1", "--cost.market_source=d\x1b[2J"});
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  EXPECT_TRUE(contains(shown.output, "forecast for 1 x a\\x1b[2J\\x0ab, "));
  EXPECT_TRUE(contains(shown.output, "measured on c\\x1b[2J ("));
  EXPECT_TRUE(contains(shown.output, "d\\x1b[2J"));
  EXPECT_TRUE(contains(shown.errors, "compute_capability of a\\x1b[2J\\x0ab is not stated"));
  EXPECT_EQ((shown.output + shown.errors).find('\x1b'), std::string::npos);
  const auto key = folder.write("run.toml", "\"e\\u001b[2J\\n\" = 1\n");
  const ProgramResult refused = plan({key.string()});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.errors, "unknown key; got e\\x1b[2J\\x0a, expected"));
}

TEST(PlanForecast, ARunThatLeavesItsDeviceOpenIsPlannedForTheHardwareThatIsNamed) {
  const std::vector<std::string> run = {config("124m.toml"), "--model.head_dim=128", "--precision.attention=fp8"};
  const auto planned = [&](std::vector<std::string> more) {
    more.insert(more.begin(), run.begin(), run.end());
    return plan(more);
  };
  const ProgramResult named = planned({"--hardware=h200"});
  EXPECT_EQ(named.exit_code, 0) << named.errors;
  EXPECT_EQ(named.output, planned({"--hardware=h200", "--device.kind=cuda"}).output);
  const ProgramResult contrary = planned({"--hardware=h200", "--device.kind=cpu"});
  EXPECT_EQ(contrary.exit_code, 2);
  EXPECT_TRUE(contains(contrary.errors,
                       "[precision.attention] fp8 needs a GPU that multiplies 8-bit floats; got "
                       "device.kind = \"cpu\", expected device.kind = \"cuda\""));
  const ProgramResult on_cpu = planned({"--hardware=cpu"});
  EXPECT_EQ(on_cpu.exit_code, 2);
  EXPECT_TRUE(contains(on_cpu.errors, "got device.kind = \"cpu\"")) << on_cpu.errors;
  // What a GPU excludes is excluded.
  const ProgramResult recorded =
      plan({config("124m.toml"), "--gpus=2", "--hardware=h200", "--distribution.record_calls=8"});
  EXPECT_EQ(recorded.exit_code, 2);
  EXPECT_TRUE(contains(recorded.errors, "[distribution.record_calls] NCCL makes its calls on the device"));
}

}  // namespace
}  // namespace litespark
