// SPDX-License-Identifier: Apache-2.0
#include "plan/hardware.h"

#include <cctype>
#include <cmath>
#include <regex>

#include "core/error.h"
#include "core/json_text.h"
#include "core/nearest.h"
#include "plan/row_text.h"

namespace litespark {
namespace {

constexpr AttentionRates kAmpere = {.flash1 = 0.36, .flash2 = 0.6, .vendor_forward = 0.6, .vendor_backward = 0.52};
constexpr AttentionRates kHopper = {.flash1 = 0.2, .flash2 = 0.36, .vendor_forward = 0.62, .vendor_backward = 0.51};
constexpr AttentionRates kBlackwell = {.flash1 = 0.09, .flash2 = 0.16, .vendor_forward = 0.55, .vendor_backward = 0.42};
/// Of whatever a machine can do, have or cost: less is a slip, and what divides by it, or by the square of it, would
/// pass every number.
constexpr double kLeast = 1e-6;
constexpr double kMost = 1e9;
constexpr const char* kSheet = "vendor data sheet; what kernels reach of it: docs/planner.md";

Hardware ampere(const char* name, double memory_gib, double memory_tbps, double link_gbps) {
  return {.name = name,
          .source = kSheet,
          .compute_capability = "8.0",
          .bf16_tflops = 312,
          .memory_gib = memory_gib,
          .memory_tbps = memory_tbps,
          .link_gbps = link_gbps,
          .network_gbps = 25,
          .multiprocessors = 108,
          .matmul_efficiency = 0.86,
          .watts = 400,
          .idle_watts = 55,
          .node_watts = 6500,
          .price_per_hour = 1.5,
          .embodied_kg = 150,
          .attention = kAmpere};
}

Hardware hopper(const char* name, double memory_gib, double memory_tbps, double link_gbps) {
  return {.name = name,
          .source = kSheet,
          .compute_capability = "9.0",
          .bf16_tflops = 989.4,
          .fp8_tflops = 1978.9,
          .memory_gib = memory_gib,
          .memory_tbps = memory_tbps,
          .link_gbps = link_gbps,
          .network_gbps = 50,
          .multiprocessors = 132,
          .matmul_efficiency = 0.7,
          .watts = 700,
          .idle_watts = 75,
          .node_watts = 10200,
          .price_per_hour = 2.5,
          .embodied_kg = 160,
          .attention = kHopper};
}

Hardware blackwell(const char* name, double bf16_tflops, double memory_gib, double watts, int64_t devices_a_node) {
  return {.name = name,
          .source = kSheet,
          .compute_capability = "10.0",
          .bf16_tflops = bf16_tflops,
          .fp8_tflops = 2 * bf16_tflops,
          .memory_gib = memory_gib,
          .memory_tbps = 8,
          .link_gbps = 900,
          .devices_a_node = devices_a_node,
          .network_gbps = 50,
          .multiprocessors = 148,
          .matmul_efficiency = 0.57,
          .watts = watts,
          .idle_watts = 140,
          .node_watts = 14300.0 / 8 * static_cast<double>(devices_a_node),
          .price_per_hour = 4,
          .embodied_kg = 200,
          .attention = kBlackwell};
}

/// Parts that are cut down or enlarged from the ones above.
std::vector<Hardware> variants() {
  Hardware h800 = hopper("H800", 79.1, 3.35, 200);
  Hardware a800 = ampere("A800", 79.15, 2.039, 200);
  Hardware h20 = hopper("H20", 95.5, 4.0, 450);
  h20.bf16_tflops = 148;
  h20.fp8_tflops = 296;
  h20.matmul_efficiency = 0.9;
  h20.attention = kAmpere;
  h20.watts = 400;
  Hardware v100 = ampere("V100", 31.7, 0.9, 150);
  v100.compute_capability = "7.0";
  v100.bf16_tflops = 125;
  v100.multiprocessors = 80;
  v100.network_gbps = 12.5;
  v100.matmul_efficiency = 0.75;
  v100.watts = 300;
  v100.node_watts = 3500;
  Hardware b300 = blackwell("B300", 2250, 268, 1400, 8);
  Hardware gb300 = blackwell("GB300", 2450, 275, 1400, 72);
  b300.compute_capability = gb300.compute_capability = "10.3";
  return {h800, a800, h20, v100, b300, gb300};
}

std::vector<Hardware> others() {
  Hardware mi300x = {.name = "MI300X",
                     .source = kSheet,
                     .compute_capability = "none",
                     .bf16_tflops = 1307.4,
                     .fp8_tflops = 2614.9,
                     .memory_gib = 190,
                     .memory_tbps = 5.3,
                     .link_gbps = 448,
                     .network_gbps = 50,
                     .multiprocessors = 304,
                     .matmul_efficiency = 0.45,
                     .watts = 750,
                     .idle_watts = 140,
                     .node_watts = 10500,
                     .price_per_hour = 2.5,
                     .embodied_kg = 200,
                     .attention = {.flash1 = 0.12, .flash2 = 0.25, .vendor_forward = 0.35, .vendor_backward = 0.25}};
  Hardware l40s = {.name = "L40S",
                   .source = kSheet,
                   .compute_capability = "8.9",
                   .bf16_tflops = 362,
                   .fp8_tflops = 733,
                   .memory_gib = 44.5,
                   .memory_tbps = 0.864,
                   .link_gbps = 25,
                   .network_gbps = 12.5,
                   .multiprocessors = 142,
                   .matmul_efficiency = 0.65,
                   .watts = 350,
                   .idle_watts = 35,
                   .node_watts = 4500,
                   .price_per_hour = 1,
                   .embodied_kg = 120,
                   .attention = kAmpere};
  // A virtual machine with two Zen 4 cores; a CPU's "device" is all its cores. Matmul rate measured there
  // (bench/results/2026-11-29-cpu-train.json), power as its meter estimates it; no price. The link is what two
  // processes reach through Gloo (bench/results/2026-11-30-cpu-gloo.txt).
  Hardware cpu = {.name = "CPU",
                  .source = "two cores of an AMD EPYC (Zen 4) with AVX-512 bf16, measured",
                  .compute_capability = "none",
                  .bf16_tflops = 0.437,
                  .memory_gib = 23.5,
                  .memory_tbps = 0.03,
                  .link_gbps = 1.17,
                  .devices_a_node = 1,
                  .matmul_efficiency = 0.97,
                  .matmul_half_k = 10,
                  .op_overhead_us = 10,
                  .watts = 17,
                  .idle_watts = 5,
                  .attention = {.flash1 = 0.45,
                                .flash2 = 0.45,
                                .vendor_forward = 0.45,
                                .vendor_backward = 0.45,
                                .half_length = 0,
                                .full_width = 1}};
  return {mi300x, l40s, cpu};
}

std::vector<Hardware> make_known_hardware() {
  std::vector<Hardware> all = {ampere("A100", 79.15, 2.039, 300), hopper("H100", 79.1, 3.35, 450),
                               hopper("H200", 139.8, 4.8, 450), blackwell("B200", 2250, 178, 1000, 8),
                               blackwell("GB200", 2450, 184, 1200, 72)};
  for (const std::vector<Hardware>& more : {variants(), others()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// "h100" in "8xH100-80GB" and "H100x8", and neither in "GH100" nor in "H1000".
bool is_word_at(std::string_view text, size_t at, size_t length) {
  const auto is_digit = [&](size_t i) { return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); };
  const auto is_letter = [&](size_t i) { return i < text.size() && std::isalpha(static_cast<unsigned char>(text[i])); };
  const bool is_count = at >= 2 && text[at - 1] == 'x' && is_digit(at - 2);
  return (at == 0 || is_count || !(is_letter(at - 1) || is_digit(at - 1))) && !is_digit(at + length);
}

size_t word_position(std::string_view lower_text, std::string_view lower_word) {
  for (size_t at = lower_text.find(lower_word); at != std::string_view::npos;
       at = lower_text.find(lower_word, at + 1)) {
    if (is_word_at(lower_text, at, lower_word.size())) return at;
  }
  return std::string_view::npos;
}

/// Sold without the fast link and with lower clocks.
void make_pcie(Hardware& hardware) {
  const bool is_hopper = hardware.name == "H100" || hardware.name == "H800";
  if (is_hopper) {
    hardware.bf16_tflops = 756;
    hardware.fp8_tflops = 1513;
    hardware.memory_tbps = 2.0;
  } else {
    hardware.memory_tbps = 1.935;
  }
  hardware.link_gbps = is_hopper ? 50 : 25;
  hardware.watts = is_hopper ? 350 : 300;
}

void apply_text(Hardware& hardware, std::string_view lower) {
  const auto stated = [&](std::string_view unit) {
    const auto number = number_before(lower, unit);
    return number && *number >= kLeast && *number <= kMost ? number : std::nullopt;
  };
  if (hardware.name != "GB200" && hardware.name != "GB300" && contains_text(lower, "pcie")) make_pcie(hardware);
  if (hardware.name == "A100" && contains_text(lower, "40gb")) {
    hardware.memory_gib = 39.4;
    hardware.memory_tbps = 1.555;
  }
  if (const auto gb = stated("gb"); gb && *gb > 60) hardware.memory_gib = 0.99 * *gb;
  if (const auto rate = stated("tb/s")) hardware.memory_tbps = *rate;
  // A part that runs at its limit slows by about the square root of the power taken from it.
  if (const auto cap = stated("w cap"); cap && *cap < hardware.watts) {
    const double slower = std::sqrt(*cap / hardware.watts);
    AttentionRates& attention = hardware.attention;
    for (double* share : {&hardware.matmul_efficiency, &attention.flash1, &attention.flash2, &attention.vendor_forward,
                          &attention.vendor_backward}) {
      *share *= slower;
    }
    hardware.watts = *cap;
  }
  auto node_gbits = stated("gbps node");
  if (!node_gbits) node_gbits = stated("gb/s roce per node");
  if (node_gbits) hardware.network_gbps = *node_gbits / 8 / static_cast<double>(hardware.devices_a_node);
  if (const auto each = stated("g/gpu")) hardware.network_gbps = *each / 8;
}

}  // namespace

void AttentionRates::visit(Fields& fields) {
  fields.add({.path = "flash1", .value = &flash1, .help = "First tiled kernels (2022).", .range = between(0.001, 1)});
  fields.add({.path = "flash2", .value = &flash2, .help = "Second generation (2023).", .range = between(0.001, 1)});
  fields.add({.path = "vendor_forward",
              .value = &vendor_forward,
              .help = "Best known kernels, forward.",
              .range = between(0.001, 1)});
  fields.add({.path = "vendor_backward",
              .value = &vendor_backward,
              .help = "Best known kernels, backward.",
              .range = between(0.001, 1)});
  fields.add({.path = "half_length",
              .value = &half_length,
              .help = "Sequence at which half of that is reached.",
              .unit = "tokens",
              .range = between(0, 1e6)});
  fields.add({.path = "full_width",
              .value = &full_width,
              .help = "Head dim from which on nothing is lost.",
              .range = between(1, 1e4)});
}

void Hardware::visit(Fields& fields) {
  const auto number = [&](const char* path, double* value, const char* help, const char* unit) {
    fields.add({.path = path, .value = value, .help = help, .unit = unit, .range = zero_or_between(kLeast, kMost)});
  };
  fields.add({.path = "name", .value = &name, .help = "What the machine is called."});
  fields.add({.path = "source", .value = &source, .help = "Where these figures come from."});
  fields.add({.path = "compute_capability",
              .value = &compute_capability,
              .help = "NVIDIA's compute capability, such as 9.0; none for another maker's device; empty: not stated."});
  number("bf16_tflops", &bf16_tflops, "Dense 16-bit matmul peak of one device.", "TFLOP/s");
  number("fp8_tflops", &fp8_tflops, "Dense 8-bit matmul peak; 0 for none.", "TFLOP/s");
  number("memory_gib", &memory_gib, "Memory of one device that programs can allocate.", "GiB");
  number("memory_tbps", &memory_tbps, "Memory bandwidth.", "TB/s");
  number("link_gbps", &link_gbps, "Link to the other devices of a node, one way.", "GB/s");
  fields.add({.path = "devices_a_node",
              .value = &devices_a_node,
              .help = "Devices that the fast link joins.",
              .unit = "devices",
              .range = between(1, 1 << 16)});
  number("network_gbps", &network_gbps, "A device's share of the node's network, one way.", "GB/s");
  fields.add({.path = "multiprocessors",
              .value = &multiprocessors,
              .help = "Multiprocessors of one device.",
              .range = between(0, 1 << 16)});
  fields.add({.path = "matmul_efficiency",
              .value = &matmul_efficiency,
              .help = "Of the peak, for large matrices under a training load.",
              .range = between(0.001, 1)});
  number("matmul_half_k", &matmul_half_k, "Inner dimension at which half of that is reached.", "elements");
  fields.add({.path = "memory_efficiency",
              .value = &memory_efficiency,
              .help = "Of the memory bandwidth.",
              .range = between(0.001, 1)});
  number("op_overhead_us", &op_overhead_us, "Start of one kernel.", "us");
  number("watts", &watts, "Power limit of one device.", "W");
  number("idle_watts", &idle_watts, "One device doing nothing.", "W");
  number("node_watts", &node_watts, "Rated power of a node.", "W");
  number("price_per_hour", &price_per_hour, "Rent of one device.", "dollars");
  number("embodied_kg", &embodied_kg, "Making of one device with its share of the node.", "kg CO2e");
  fields.section("attention", "Fractions of the 16-bit peak that attention reaches.", attention);
}

std::optional<bool> Hardware::runs_fp8_attention() const {
  if (compute_capability.empty()) return std::nullopt;
  return compute_capability == "9.0";
}

std::optional<bool> Hardware::is_gpu() const {
  if (multiprocessors > 0) return true;
  if (compute_capability.empty()) return std::nullopt;
  return compute_capability != "none";
}

void Hardware::validate(std::string_view file) const {
  const auto key = [&](const char* path) { return (file.empty() ? "hardware." : std::string(file) + ": ") + path; };
  static const std::regex kCapability("[1-9][0-9]?\\.[0-9]");
  const bool is_stated = !compute_capability.empty() && compute_capability != "none";
  // Long texts are not for regular expressions, which recurse.
  if (is_stated && (compute_capability.size() > 4 || !std::regex_match(compute_capability, kCapability))) {
    throw ConfigError(key("compute_capability"), "is no compute capability",
                      json_string(compute_capability.substr(0, 40)),
                      "such as \"9.0\", \"none\" for another maker's device, or \"\" where it is not known");
  }
  const auto need = [&](const char* path, double value) {
    if (!(value > 0)) throw ConfigError(key(path), "is needed to plan a run", value, "above 0");
  };
  need("bf16_tflops", bf16_tflops);
  need("memory_gib", memory_gib);
  need("memory_tbps", memory_tbps);
}

const std::vector<Hardware>& known_hardware() {
  static const std::vector<Hardware> all = make_known_hardware();
  return all;
}

Hardware hardware_named(std::string_view name) {
  std::vector<std::string> names;
  std::string list;
  for (const Hardware& hardware : known_hardware()) {
    if (lower_text(hardware.name) == lower_text(name)) return hardware;
    names.push_back(lower_text(hardware.name));
    list += (list.empty() ? "" : ", ") + names.back();
  }
  const std::string near = nearest_name(lower_text(name), names);
  throw ConfigError("cluster.hardware", "names no machine that is known", '"' + std::string(name) + '"',
                    "a TOML file or one of " + list, near.empty() ? "" : "did you mean " + near + "?");
}

Hardware shared_hardware(Hardware machine, int64_t ranks) {
  const auto share = static_cast<double>(ranks);
  for (double* const value :
       {&machine.bf16_tflops, &machine.fp8_tflops, &machine.memory_gib, &machine.memory_tbps, &machine.network_gbps,
        &machine.watts, &machine.idle_watts, &machine.price_per_hour, &machine.embodied_kg}) {
    *value /= share;
  }
  machine.devices_a_node = ranks;
  return machine;
}

Hardware hardware_on_nodes(Hardware machine, int64_t gpus, int64_t nodes) {
  if (nodes <= 1) return machine;
  const int64_t used = gpus / nodes;
  if (used > machine.devices_a_node) {
    throw ConfigError("cluster.nodes", "leaves more devices on a node than one of a " + machine.name + " has", used,
                      "at most " + std::to_string(machine.devices_a_node), "name more nodes");
  }
  machine.node_watts *= static_cast<double>(used) / static_cast<double>(machine.devices_a_node);
  machine.devices_a_node = used;
  return machine;
}

Hardware hardware_in_text(std::string_view text) {
  const std::string lower = lower_text(text);
  for (const char* name :
       {"GB300", "GB200", "B300", "B200", "H200", "H800", "H100", "H20", "A800", "A100", "V100", "MI300X", "L40S"}) {
    if (word_position(lower, lower_text(name)) == std::string_view::npos) continue;
    Hardware hardware = hardware_named(name);
    apply_text(hardware, lower);
    return hardware;
  }
  Hardware unknown;
  unknown.name.clear();
  return unknown;
}

}  // namespace litespark
