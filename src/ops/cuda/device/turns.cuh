// SPDX-License-Identifier: Apache-2.0
// Order among blocks that run at the same time: a ticket says who started first, a counter in global memory whose turn
// it is. A block waits only for blocks with an earlier ticket, which run already, so nobody waits for ever.
#pragma once

#include <cstdint>

namespace litespark::cuda {

/// The number of this block in the order of starting.
__device__ inline int draw_ticket(int32_t* ticket) {
  return atomicAdd(ticket, 1);
}

/// After a block's last ticket: the last of `blocks` makes both numbers 0 again for the next launch. `tickets`: those
/// drawn, and the blocks that need no more.
__device__ inline void return_tickets(int32_t* tickets, int blocks) {
  __threadfence();
  if (atomicAdd(tickets + 1, 1) != blocks - 1) return;
  tickets[0] = 0;
  tickets[1] = 0;
}

/// Waits until `turns` has counted to `turn`; bulk copies issued afterwards come after those of the blocks before.
__device__ inline void wait_for_turn(const int32_t* turns, int32_t turn) {
  int32_t done = 0;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(done) : "l"(__cvta_generic_to_global(turns)) : "memory");
  } while (done != turn);
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Counts one further. Bulk copies of this thread that are waited for are seen by whoever waits for the new count.
__device__ inline void pass_turn(int32_t* turns) {
  asm volatile("fence.proxy.async.global;" ::: "memory");
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(__cvta_generic_to_global(turns)) : "memory");
}

}  // namespace litespark::cuda
