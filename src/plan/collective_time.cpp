// SPDX-License-Identifier: Apache-2.0
#include "plan/collective_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/error.h"

namespace litespark {
namespace {

// NCCL 2.28, src/graph/tuning.cc, in microseconds, for the protocols LL, LL128, Simple.
constexpr std::array kRingBase = {6.6, 14.0, 8.4};
constexpr std::array kRingHop = {0.6, 1.9, 3.4};
constexpr std::array kRingNetworkHop = {2.7, 4.0, 14.0};
constexpr std::array kTreeBase = {6.8, 14.0, 8.4};
constexpr std::array kTreeHop = {0.6, 1.25, 4.0};
constexpr std::array kTreeNetworkHop = {5.0, 8.5, 14.0};
/// Rings of the simple protocol over several nodes.
constexpr double kRingStretch = 1.4;
constexpr double kSwitchHop = 25;
constexpr double kSwitchNetworkHop = 18;
/// LL sends four bytes of flag with four of data; LL128 eight with 120, and neither fills the link.
constexpr std::array kProtocolShare = {0.3, 0.6, 1.0};
/// Of a network card 46 to 48 in 50.
constexpr double kNetworkShare = 0.92;
constexpr double kOneCardShare = 0.85;
/// Of the link, for both directions of a reduction in the switch; later links give up more to it.
constexpr double kSwitchShare = 0.69;
constexpr double kLaterSwitchShare = 0.6;
/// Of a device's one-way link rate, what the inner steps of a ring are seen to reach on every part.
constexpr double kLinkShare = 0.83;
/// Of a step, that the last one of a ring takes longer: it only receives. Two H200 reach 65 % of the link in a
/// reduce-scatter, 68 in an all-gather and 75 in an all-reduce (bench/results/2026-11-30-h200-x2-nccl.json), eight 80
/// to 82.
constexpr double kLastStep = 0.25;
/// The first pieces of a large array cross the group before the pipeline is full: as long as this many bytes take, half
/// as many where a ring has one step.
constexpr double kPipelineBytes = 24.0 * (1 << 20);
/// Host and launch time that a caller sees.
constexpr double kLaunch = 10;
/// Of one message between neighbours, in us.
constexpr double kHop = 20;

/// Data that nothing can carry would take for ever, which is no answer.
void need_links(const Group& group, const Hardware& hardware) {
  const auto need = [&](const char* key, double rate) {
    if (rate > 0) return;
    throw ConfigError("hardware." + std::string(key), "is needed for more than one device of a " + hardware.name, rate,
                      "above 0");
  };
  if (group.ranks_a_node > 1) need("link_gbps", hardware.link_gbps);
  if (group.nodes() > 1) need("network_gbps", hardware.network_gbps);
}

bool has_switch_reduction(const Hardware& hardware) {
  return hardware.link_gbps >= 400;
}

double ring_steps(Collective kind, double ranks) {
  return (kind == Collective::kAllReduce ? 2 : 1) * (ranks - 1);
}

double ring_seconds(Collective kind, double bytes, const Group& group, double rate) {
  const double ranks = static_cast<double>(group.ranks);
  const double steps = ring_steps(kind, ranks);
  const double across = ring_steps(kind, group.nodes());
  double best = 1e30;
  for (size_t p = 0; p < kRingBase.size(); ++p) {
    const double latency = kRingBase[p] + (steps - across) * kRingHop[p] + across * kRingNetworkHop[p];
    const double fill = p == 2 ? std::min(bytes, kPipelineBytes * steps / (steps + 1)) / rate : 0;
    const double stretch = p == 2 && group.nodes() > 1 ? kRingStretch : 1;
    const double reached = rate * kProtocolShare[p] * ring_share(kind, ranks) / kLinkShare;
    const double travel = bus_factor(kind, ranks) * bytes / reached;
    best = std::min(best, 1e-6 * latency * stretch + fill + travel);
  }
  return best;
}

double tree_seconds(double bytes, const Group& group, double rate) {
  const double inside = static_cast<double>(group.ranks) / group.nodes() - 1;
  double best = 1e30;
  for (size_t p = 0; p < kTreeBase.size(); ++p) {
    const double latency = kTreeBase[p] + 2 * (inside * kTreeHop[p] + std::log2(group.nodes()) * kTreeNetworkHop[p]);
    const double fill = p == 2 ? std::min(bytes, kPipelineBytes) / rate : 0;
    best = std::min(best, 1e-6 * latency + fill + 2 * bytes / (0.85 * rate * kProtocolShare[p]));
  }
  return best;
}

double switch_seconds(double bytes, const Group& group, const Hardware& hardware) {
  const double ranks = static_cast<double>(group.ranks);
  const double share = hardware.link_gbps > 600 ? kLaterSwitchShare : kSwitchShare;
  const double link = share * 1e9 * hardware.link_gbps;
  const double network = kNetworkShare * 1e9 * hardware.network_gbps * static_cast<double>(group.ranks_a_node);
  const double inside = ((ranks + 1) / ranks * bytes + std::min(bytes, kPipelineBytes)) / link;
  if (group.nodes() < 2) return 1e-6 * kSwitchHop + inside;
  const double latency = kSwitchHop + kSwitchNetworkHop + 2 * std::log2(group.nodes()) * kTreeNetworkHop[2];
  return 1e-6 * latency + std::max(inside, 2 * bytes / network);
}

}  // namespace

Group strided_group(int64_t ranks, int64_t stride, const Hardware& hardware) {
  const int64_t fitting = std::max<int64_t>(1, hardware.devices_a_node / std::max<int64_t>(1, stride));
  return {.ranks = ranks, .ranks_a_node = std::min(ranks, fitting)};
}

double bus_factor(Collective kind, double ranks) {
  return (kind == Collective::kAllReduce ? 2 : 1) * (ranks - 1) / ranks;
}

double ring_share(Collective kind, double ranks) {
  return kLinkShare / (1 + kLastStep / ring_steps(kind, ranks));
}

double ring_rate(const Group& group, const Hardware& hardware, bool one_network_card) {
  need_links(group, hardware);
  const double link = kLinkShare * 1e9 * hardware.link_gbps;
  if (group.nodes() < 2) return link;
  if (one_network_card) return kOneCardShare * 1e9 * hardware.network_gbps;
  const double network = kNetworkShare * 1e9 * hardware.network_gbps * static_cast<double>(group.ranks_a_node);
  return group.ranks_a_node > 1 ? std::min(link, network) : network;
}

double hop_seconds(double bytes, const Group& group, const Hardware& hardware) {
  if (group.ranks < 2) return 0;
  // Between nodes each device has its own card, as a ring with one device a node.
  const double link = ring_rate(group.nodes() > 1 ? Group{group.ranks, 1} : group, hardware);
  return bytes / link + 1e-6 * kHop;
}

double collective_seconds(Collective kind, double bytes, const Group& group, const Hardware& hardware,
                          bool one_network_card) {
  if (group.ranks < 2) return 0;
  need_links(group, hardware);
  const double rate = ring_rate(group, hardware, one_network_card);
  if (kind == Collective::kAllToAll) {
    // Every byte for another node leaves through the rank's own card.
    const double ranks = static_cast<double>(group.ranks);
    const double inside = static_cast<double>(group.ranks_a_node);
    const double link = kLinkShare * 1e9 * hardware.link_gbps;
    const double network = kNetworkShare * 1e9 * hardware.network_gbps;
    const double away = (ranks - inside) / ranks * bytes / network;
    return 1e-6 * (8.4 + ranks * 0.6) + std::max((inside - 1) / ranks * bytes / link, group.nodes() > 1 ? away : 0);
  }
  double best = ring_seconds(kind, bytes, group, rate);
  if (kind == Collective::kAllReduce) {
    best = std::min(best, tree_seconds(bytes, group, rate));
    if (has_switch_reduction(hardware) && group.ranks_a_node > 4) {
      best = std::min(best, switch_seconds(bytes, group, hardware));
    }
  }
  return best + 1e-6 * kLaunch;
}

double ring_memory_bytes(Collective kind, double bytes, double ranks) {
  const double ends = kind == Collective::kAllReduce || kind == Collective::kReduceScatter ? 2 : 1;
  return (3 * bus_factor(kind, ranks) + ends / ranks) * bytes;
}

double contention_seconds(Collective kind, double bytes, double ranks, const Hardware& hardware) {
  // The bandwidth is gone: matmuls beside a reduce-scatter of 400 MB lost 0.25 ms, its 1 GB at the memory's rate. So
  // is, at the limit of power, the energy: a copy at that rate takes 0.48 to 0.68 of what lies between idle and the
  // limit.
  constexpr double kPower = 0.6;
  // A byte over the link is counted as one through memory.
  const double moved = ring_memory_bytes(kind, bytes, ranks) + bus_factor(kind, ranks) * bytes;
  return (1 + kPower) * moved / hardware.memory_rate();
}

double ring_formula_seconds(double bytes, double ranks, double alpha, double beta) {
  return 2 * (ranks - 1) * alpha + bus_factor(Collective::kAllReduce, ranks) * bytes * beta;
}

double bus_bandwidth(Collective kind, double bytes, const Group& group, const Hardware& hardware) {
  const double seconds = collective_seconds(kind, bytes, group, hardware);
  return seconds > 0 ? bus_factor(kind, static_cast<double>(group.ranks)) * bytes / seconds : 0;
}

}  // namespace litespark
