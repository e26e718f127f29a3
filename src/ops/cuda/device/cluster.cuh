// SPDX-License-Identifier: Apache-2.0
// Thread block clusters (PTX ISA, "%cluster_ctarank", "mapa", "barrier.cluster"; sm_90 and later): blocks that run at
// the same time and write into each other's shared memory.
#pragma once

#include <cstdint>

namespace litespark::cuda {

__device__ inline uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline uint32_t cluster_blocks() {
  uint32_t blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

/// This cluster's place in the grid, and how many there are, along x.
__device__ inline int cluster_number() {
  int number;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
  return number;
}
__device__ inline int num_clusters() {
  int number;
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(number));
  return number;
}

/// Sends two floats to where block `rank` of the cluster has what this block has at `shared`, 8-byte aligned; their
/// bytes count on the barrier that it has at the address `barrier`.
__device__ inline void send_to_block(uint32_t shared, uint32_t rank, float first, float second, uint32_t barrier) {
  asm volatile(
      "{\n.reg .b32 place, full;\n"
      "mapa.shared::cluster.u32 place, %0, %2;\n"
      "mapa.shared::cluster.u32 full, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [place], {%3, %4}, [full];\n}\n" ::"r"(shared),
      "r"(barrier), "r"(rank), "f"(first), "f"(second)
      : "memory");
}

/// Waits until the phase of `parity` is complete, and sees what other blocks have sent for it.
__device__ inline void cluster_barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Arrives at the barrier that block `rank` of the cluster has at the address `barrier`. Says that this thread has read
/// what the barrier guards, and orders none of its writes: with a release for the cluster the compiler puts a fence
/// against all memory in front, which in a loop takes longer than the work of a stage.
__device__ inline void arrive_at_block(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// Both by all threads of all blocks: what came before arrive() in one is seen after wait() in every other.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace litespark::cuda
