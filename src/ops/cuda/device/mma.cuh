// SPDX-License-Identifier: Apache-2.0
// Tensor-core vocabulary that every GPU since sm_80 speaks: mma.m16n8k16 in bf16, ldmatrix, asynchronous copies.
#pragma once

#include <cstdint>

#include "core/bf16.h"
#include "ops/cuda/device/math.cuh"

namespace litespark::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// The block's shared memory of the size that its launch asked for.
__device__ inline unsigned char* launched_shared() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return bytes;
}

/// c += a b.
__device__ inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 x 8 matrices; each lane gives the address of one row of 16 bytes.
__device__ inline void load_matrix(uint32_t (&registers)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrix_transposed(uint32_t (&registers)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(address)
               : "memory");
}

/// Copies 16 bytes to shared memory without a register; writes zeros, and reads nothing, when `exists` is false.
__device__ inline void copy_async_16(uint32_t shared, const void* global, bool exists) {
  const int bytes = exists ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
/// The same of 8 bytes, which pass through L1.
__device__ inline void copy_async_8(uint32_t shared, const void* global, bool exists) {
  const int bytes = exists ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
__device__ inline void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most kPending of this thread's newest groups are under way.
template <int kPending>
__device__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace litespark::cuda
