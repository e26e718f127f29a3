// SPDX-License-Identifier: Apache-2.0
// What a machine can do, as data: peaks from data sheets, what kernels really reach of them, links, power, price. One
// TOML file describes one machine; the ones below come with the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.h"

namespace litespark {

/// How attention was computed: scores in memory, one of the generations of tiled kernels, or ours.
enum class AttentionKernel : uint8_t { kUnfused, kFlash1, kFlash2, kVendor, kLitespark };

/// Fractions of the 16-bit matmul peak that causal attention reaches at long sequences with head dim 128. What ours
/// reach follows from the best known kernels' (plan/attention_time.h).
struct AttentionRates {
  double flash1 = 0.2;
  double flash2 = 0.36;
  double vendor_forward = 0.62;
  double vendor_backward = 0.51;
  double half_length = 400;  ///< sequence at which half of that is reached; best known kernels backward: 2.25 times it
  double full_width = 128;   ///< head dim from which on nothing is lost

  void visit(Fields& fields);
};

/// A GPU (or a CPU) in a node of its kind. 0 where the data sheet is silent: whatever depends on it is then "n/a".
struct Hardware {
  std::string name = "custom";
  std::string source;  ///< where the figures come from
  /// NVIDIA's, such as "9.0"; "none": another maker's; "": not stated.
  std::string compute_capability;
  double bf16_tflops = 0;      ///< dense
  double fp8_tflops = 0;       ///< dense; 0: none
  double memory_gib = 0;       ///< that programs can allocate
  double memory_tbps = 0;      ///< 10^12 bytes a second
  double link_gbps = 0;        ///< to the other devices of the node, one way, 10^9 bytes a second
  int64_t devices_a_node = 8;  ///< that the fast link joins
  double network_gbps = 0;     ///< a device's share of the node's network, one way, 10^9 bytes a second
  int64_t multiprocessors = 0;
  double matmul_efficiency = 0.7;  ///< of the peak, for large sizes under a training load
  double matmul_half_k = 300;      ///< inner dimension at which half of that is reached
  double memory_efficiency = 0.85;
  double op_overhead_us = 4;
  double watts = 0;           ///< limit of a device
  double idle_watts = 0;      ///< of a device
  double node_watts = 0;      ///< rated, of a whole node
  double price_per_hour = 0;  ///< one device, dollars
  double embodied_kg = 0;     ///< making of one device with its share of the node, kg CO2e
  AttentionRates attention;

  void visit(Fields& fields);
  /// Throws ConfigError for a machine without peak, memory or bandwidth; `file` is where it was read, if it was.
  void validate(std::string_view file = {}) const;

  double peak_flops(bool fp8) const { return 1e12 * (fp8 && fp8_tflops > 0 ? fp8_tflops : bf16_tflops); }
  double memory_bytes() const { return memory_gib * 1073741824.0; }
  /// Whether attention's forward on 8-bit floats runs there; nullopt: the capability is not stated.
  std::optional<bool> runs_fp8_attention() const;
  /// Whether it is a GPU; nullopt: nothing that only one of them has is stated.
  std::optional<bool> is_gpu() const;
  double memory_rate() const { return memory_tbps * 1e12 * memory_efficiency; }
};

/// The machines that come with the program, in the order of help texts.
const std::vector<Hardware>& known_hardware();

/// By name, in any case ("h200"). Throws ConfigError naming those that are known.
Hardware hardware_named(std::string_view name);

/// What one of `ranks` processes has that share a machine of one device, as ranks on a CPU do: rates, memory, power and
/// price in equal parts.
Hardware shared_hardware(Hardware machine, int64_t ranks);

/// The machine as a run of `gpus` devices lies on `nodes` of its nodes: the fast link joins only those of a node. 1
/// node, the default of run files, says nothing. A node that is not full counts with the used share of its power.
/// Throws ConfigError for more devices on a node than the machine has.
Hardware hardware_on_nodes(Hardware machine, int64_t gpus, int64_t nodes);

/// The machine that a free text speaks of ("H100-96GB HBM2e 2.4 TB/s, 500 W cap, 400G/GPU"), with what the text says
/// about its memory, power cap and network; an empty name when it speaks of none that is known.
Hardware hardware_in_text(std::string_view text);

}  // namespace litespark
