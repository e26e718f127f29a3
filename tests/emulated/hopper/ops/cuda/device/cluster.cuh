// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: blocks of a cluster are coroutines beside each other.
#pragma once

#include <cstdint>
#include <cstring>

#include "block.h"
#include "ops/cuda/device/tma.cuh"

namespace litespark::cuda {

inline uint32_t cluster_rank() {
  return emulated::rank_in_cluster();
}

inline uint32_t cluster_blocks() {
  return emulated::blocks_in_cluster();
}

inline int cluster_number() {
  return emulated::place_in_grid().cluster;
}
inline int num_clusters() {
  return emulated::place_in_grid().num_clusters;
}

inline void send_to_block(uint32_t shared, uint32_t rank, float first, float second, uint32_t barrier) {
  if (shared % 8 != 0) emulated::fail("two floats off their alignment");
  emulated::in_block(rank, [=] {
    emulated::later([=] {
      std::memcpy(emulated::shared_memory() + shared, &first, 4);
      std::memcpy(emulated::shared_memory() + shared + 4, &second, 4);
      emulated::barrier_complete(barrier, 8);
    });
  });
}
inline void cluster_barrier_wait(uint32_t barrier, uint32_t parity) {
  barrier_wait(barrier, parity);
}

inline void arrive_at_block(uint32_t barrier, uint32_t rank) {
  emulated::in_block(rank, [=] { emulated::barrier_arrive(barrier, 0); });
}

inline void cluster_arrive() {}
inline void cluster_wait() {
  emulated::meet_all();
}

}  // namespace litespark::cuda
