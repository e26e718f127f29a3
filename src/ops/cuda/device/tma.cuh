// SPDX-License-Identifier: Apache-2.0
// Hopper's asynchronous copies and the barriers they complete on (PTX ISA, "mbarrier", "cp.async.bulk.tensor"), and the
// registers that warpgroups hand each other.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace litespark::cuda {

/// A barrier in shared memory, by its 32-bit address.
__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// After the inits of one thread, before the block's barrier that shows them to the others.
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives and announces `bytes` of copies that the barrier's phase also waits for.
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Waits until the phase of `parity` is complete.
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Where a two-dimensional box starts.
struct BoxCoordinate {
  int column = 0;
  int row = 0;
};

/// Copies one box of the tensor that `map` describes to shared memory; its bytes count on `barrier`.
__device__ inline void load_box(uint32_t destination, const CUtensorMap& map, BoxCoordinate at, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          destination),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier)
      : "memory");
}
/// The same box for every block of the cluster whose bit is set in `blocks`: to the same place in each one's shared
/// memory, its bytes counting on the barrier at the same place.
__device__ inline void load_box_to_blocks(uint32_t destination, const CUtensorMap& map, BoxCoordinate at,
                                          uint32_t barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
      "l"(&map), "r"(at.column), "r"(at.row), "r"(barrier), "h"(blocks)
      : "memory");
}
__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Bytes of memory without a map: `bytes` and both addresses are multiples of 16.
__device__ inline void load_bytes(uint32_t destination, const void* source, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(__cvta_generic_to_global(source)), "r"(bytes), "r"(barrier)
      : "memory");
}
/// From shared memory to global, as a copy or added to what is there. One thread issues, commits and waits.
__device__ inline void store_bytes(float* destination, uint32_t source, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(destination)),
      "r"(source), "r"(bytes)
      : "memory");
}
__device__ inline void add_floats(float* destination, uint32_t source, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(destination)),
               "r"(source), "r"(bytes)
               : "memory");
}
__device__ inline void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until the sources of all but the newest kPending groups may be overwritten.
template <int kPending>
__device__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
/// Waits until all groups have written.
__device__ inline void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/// Orders this thread's ordinary accesses to shared memory before accesses by copies and wgmma that follow the next
/// barrier.
__device__ inline void async_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// A barrier of kThreads threads of the block; number 0 is that of __syncthreads.
template <int kNumber, int kThreads>
__device__ void named_barrier() {
  asm volatile("barrier.sync %0, %1;" ::"n"(kNumber), "n"(kThreads) : "memory");
}

/// The same for a number that is not a constant: waiting with others, and arriving without waiting.
template <int kThreads>
__device__ void named_barrier_wait(int number) {
  asm volatile("barrier.sync %0, %1;" ::"r"(number), "n"(kThreads) : "memory");
}
template <int kThreads>
__device__ void named_barrier_arrive(int number) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(number), "n"(kThreads) : "memory");
}

/// Gives registers back, or takes them: executed by all warps of a warpgroup.
template <int kRegisters>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace litespark::cuda
