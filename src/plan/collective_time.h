// SPDX-License-Identifier: Apache-2.0
// How long a collective takes: latency x steps + bytes / bandwidth with NCCL's own constants, and the choice among
// ring, tree and in-switch reduction by which is fastest.
#pragma once

#include <cstdint>

#include "plan/hardware.h"

namespace litespark {

enum class Collective : uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll };

/// Ranks as they lie on nodes: `ranks_a_node` of each, at most as many as the node has devices.
struct Group {
  int64_t ranks = 1;
  int64_t ranks_a_node = 1;
  double nodes() const {
    const int64_t whole = (ranks + ranks_a_node - 1) / ranks_a_node;
    return static_cast<double>(whole);
  }
};

/// `ranks` of which neighbours are `stride` devices apart.
Group strided_group(int64_t ranks, int64_t stride, const Hardware& hardware);

/// Of a device's one-way link rate, what a ring's bus bandwidth reaches on every part.
double ring_share(Collective kind, double ranks);

/// Bytes a second that each rank of a long ring sends and receives: the slower of the link and the network cards of the
/// node's members, with what the protocol reaches of them.
double ring_rate(const Group& group, const Hardware& hardware, bool one_network_card = false);

/// Seconds in which every rank of a ring of long messages sends `bytes` to the next one.
double hop_seconds(double bytes, const Group& group, const Hardware& hardware);

/// Seconds for arrays of `bytes` (all-gather and reduce-scatter: of the whole array).
double collective_seconds(Collective kind, double bytes, const Group& group, const Hardware& hardware,
                          bool one_network_card = false);

/// Bytes of a ring through a rank's own memory, for an array of `bytes`: each that arrives is written to a buffer and
/// read from it, and joins the array; the first step only reads the array, the last only writes it.
double ring_memory_bytes(Collective kind, double bytes, double ranks);

/// Seconds that ops lose to a whole collective under way beside them, however long it travels.
double contention_seconds(Collective kind, double bytes, double ranks, const Hardware& hardware);

/// The ring in closed form: 2 (N - 1) alpha + 2 (N - 1) / N S beta, alpha in seconds a hop, beta in seconds a byte. No
/// unit of beta = 65 and 32 gives 28 and 15 ms for 100 MB over 1024 ranks (claim:C9; docs/planner.md).
double ring_formula_seconds(double bytes, double ranks, double alpha, double beta);

/// What nccl-tests calls bus bandwidth: bytes a second through one rank, comparable over group sizes.
double bus_bandwidth(Collective kind, double bytes, const Group& group, const Hardware& hardware);

/// Bytes that one rank sends for an array of `bytes`, over `bytes`: 2 (n - 1) / n for an all-reduce, (n - 1) / n else.
double bus_factor(Collective kind, double ranks);

}  // namespace litespark
