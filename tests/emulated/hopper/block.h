// SPDX-License-Identifier: Apache-2.0
// One thread block on the CPU: every thread is a coroutine with a stack of its own, the scheduler goes round them, and
// what Hopper does asynchronously is done late and in a random order. Memory that a copy is on its way to holds NaN
// until then; products of tensor cores are computed when they are waited for. A block in which nobody can go on is
// reported as a deadlock. Slow and strict: for kernels' bodies on small cases, without a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

// Words of CUDA C++ that a host compiler does not know.
#define __device__
#define __host__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

namespace litespark::emulated {

/// Runs `body` in `threads` coroutines until all have returned. Returns what went wrong, or nothing.
std::string run_block(int threads, unsigned seed, const std::function<void()>& body);

/// Clusters of a grid.
struct GridPlace {
  int cluster = 0;
  int num_clusters = 1;
};
/// The same of `blocks` blocks at the same time, which reach into each other's memory.
std::string run_cluster(int blocks, GridPlace place, int threads, unsigned seed, const std::function<void()>& body);
inline constexpr int kMaxClusterBlocks = 4;
GridPlace place_in_grid();

/// Shared memory of the calling thread's block, aligned as Hopper's tiles want it.
unsigned char* shared_memory();
inline constexpr uint32_t kSharedBytes = 232448;

/// The calling thread's block in its cluster, and how many there are.
uint32_t rank_in_cluster();
uint32_t blocks_in_cluster();
/// Does `action` with the memory and barriers of another block. It may not wait.
void in_block(uint32_t rank, const std::function<void()>& action);
/// A barrier of all threads of the cluster.
void meet_all();

/// Comes back when `ready` holds; other threads run meanwhile.
void wait_until(const std::function<bool()>& ready);
/// Ends the block with this message.
[[noreturn]] void fail(const std::string& message);
/// Does `action` at some later time.
void later(std::function<void()> action);

/// A barrier of `threads` threads under `key`.
void meet(int key, int threads);
/// Counts for such a barrier without waiting for it.
void arrive(int key, int threads);
/// Every lane's value of the calling warp, in the order of lanes.
const uint64_t* exchange(uint64_t value);

// Barriers in shared memory, by address.
void barrier_create(uint32_t address, uint32_t arrivals);
void barrier_arrive(uint32_t address, int64_t bytes_announced);
void barrier_complete(uint32_t address, int64_t bytes);
bool barrier_passed(uint32_t address, uint32_t parity);

/// Groups of asynchronous work of the calling thread: of products (done at the wait) and of bulk copies (done late).
void add_product(std::function<void()> product);
void commit_products();
void wait_products(int pending);
void add_bulk(std::function<void()> copy);
void commit_bulk();
void wait_bulk(int pending);

}  // namespace litespark::emulated

struct EmulatedIndex {
  unsigned x = 0;
};
extern EmulatedIndex threadIdx;
extern EmulatedIndex blockDim;
struct EmulatedBlockIndex {
  unsigned x = 0, y = 0, z = 0;
};
extern EmulatedBlockIndex blockIdx;  ///< of a block that runs alone

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(uint32_t x, uint32_t y) {
  return {x, y};
}
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  return {x, y, z, w};
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline unsigned long long atomicAdd(unsigned long long* place, unsigned long long value) {
  return (*place += value) - value;
}
inline int atomicAdd(int* place, int value) {
  return (*place += value) - value;
}
/// Each nibble of `selector` names a byte of the eight of `low` and `high`.
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = low | static_cast<uint64_t>(high) << 32;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    result |= static_cast<uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  }
  return result;
}
inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a < b ? b : a;
}

void __syncthreads();
void __syncwarp();
int __shfl_sync(uint32_t mask, int value, int lane);
float __shfl_sync(uint32_t mask, float value, int lane);
int __shfl_up_sync(uint32_t mask, int value, int distance);
float __shfl_xor_sync(uint32_t mask, float value, int distance);
uint32_t __shfl_xor_sync(uint32_t mask, uint32_t value, int distance);
int __reduce_add_sync(uint32_t mask, int value);
uint32_t __ballot_sync(uint32_t mask, bool value);
int __ffs(int value);
