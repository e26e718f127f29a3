// SPDX-License-Identifier: Apache-2.0
#include "meter/peak.h"

#include <array>

namespace litespark {
namespace {

/// BF16 FLOP/s without sparsity, from NVIDIA's data sheets (which print twice as much, "with sparsity").
struct Board {
  std::string_view name_part;
  double bf16_flops;
};

/// The first row whose text the device's name holds; variants before their family.
constexpr std::array<Board, 6> kBoards = {{
    {"H200", 989.4e12},
    {"H100 PCIe", 756e12},
    {"H100 NVL", 835e12},
    {"H100", 989.4e12},
    {"A100", 312e12},
    {"L40S", 362e12},
}};

}  // namespace

std::optional<PeakRate> gpu_peak(std::string_view device_name, DType compute) {
  if (compute != DType::kBF16) return std::nullopt;
  for (const Board& board : kBoards) {
    if (device_name.find(board.name_part) == std::string_view::npos) continue;
    return PeakRate{.flops_per_second = board.bf16_flops,
                    .source = "data sheet of " + std::string(board.name_part) + ", dense bf16"};
  }
  return std::nullopt;
}

std::optional<double> model_flops_utilization(double flops, double seconds, const std::optional<PeakRate>& peak) {
  if (!peak || !(peak->flops_per_second > 0) || !(seconds > 0)) return std::nullopt;
  return flops / (seconds * peak->flops_per_second);
}

}  // namespace litespark
