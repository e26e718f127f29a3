// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: blocks of a cluster are coroutines beside each other.
#pragma once

#include <cstdint>

#include "block.h"

namespace litespark::cuda {

inline uint32_t cluster_rank() {
  return emulated::rank_in_cluster();
}

inline int cluster_number() {
  return emulated::place_in_grid().cluster;
}
inline int num_clusters() {
  return emulated::place_in_grid().num_clusters;
}

inline void arrive_at_block(uint32_t barrier, uint32_t rank) {
  emulated::in_block(rank, [=] { emulated::barrier_arrive(barrier, 0); });
}

inline void cluster_arrive() {}
inline void cluster_wait() {
  emulated::meet_all();
}

}  // namespace litespark::cuda
