// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: copies arrive late, their destination holds NaN until then.
#pragma once

#include <cstdint>
#include <cstring>

#include "block.h"
#include "core/bf16.h"
#include "ops/cuda/device/hopper_maps.h"

/// What a tensor map says.
struct CUtensorMap {
  const void* data = nullptr;
  int64_t rows = 0, columns = 0;
  int box_rows = 0, box_row_bytes = litespark::cuda::kPanelRowBytes;
  int element_bytes = 2;
};

namespace litespark::cuda {

inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  emulated::barrier_create(barrier, arrivals);
}
inline void barrier_init_fence() {}
inline void barrier_arrive(uint32_t barrier) {
  emulated::barrier_arrive(barrier, 0);
}
inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  emulated::barrier_arrive(barrier, bytes);
}
inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  emulated::wait_until([=] { return emulated::barrier_passed(barrier, parity); });
}

struct BoxCoordinate {
  int column = 0;
  int row = 0;
};

inline void load_box(uint32_t destination, const CUtensorMap& map, BoxCoordinate at, uint32_t barrier) {
  const int bytes = map.box_rows * map.box_row_bytes;
  if (destination % 1024 != 0 || destination + static_cast<uint32_t>(bytes) > emulated::kSharedBytes) {
    emulated::fail("a box outside of shared memory or off its alignment");
  }
  std::memset(emulated::shared_memory() + destination, 0xff, static_cast<size_t>(bytes));
  emulated::later([=, map = map] {
    for (int row = 0; row < map.box_rows; ++row) {
      const int64_t source_row = at.row + row;
      for (int byte = 0; byte < map.box_row_bytes; ++byte) {
        const int64_t source_byte = int64_t{at.column} * map.element_bytes + byte;
        const int64_t row_bytes = map.columns * map.element_bytes;
        const bool exists = source_row >= 0 && source_row < map.rows && source_byte < row_bytes;
        const uint32_t to = destination + static_cast<uint32_t>(row * map.box_row_bytes + byte);
        emulated::shared_memory()[swizzled(to, map.box_row_bytes)] =
            exists ? static_cast<const unsigned char*>(map.data)[source_row * row_bytes + source_byte] : 0;
      }
    }
    emulated::barrier_complete(barrier, bytes);
  });
}

inline void load_box_to_blocks(uint32_t destination, const CUtensorMap& map, BoxCoordinate at, uint32_t barrier,
                               uint16_t blocks) {
  for (uint32_t rank = 0; rank < 16; ++rank) {
    if (blocks >> rank & 1) emulated::in_block(rank, [&] { load_box(destination, map, at, barrier); });
  }
}

inline void load_bytes(uint32_t destination, const void* source, uint32_t bytes, uint32_t barrier) {
  if (destination % 16 != 0 || bytes % 16 != 0 || reinterpret_cast<uintptr_t>(source) % 16 != 0) {
    emulated::fail("a bulk copy off its alignment");
  }
  std::memset(emulated::shared_memory() + destination, 0xff, bytes);
  emulated::later([=] {
    std::memcpy(emulated::shared_memory() + destination, source, bytes);
    emulated::barrier_complete(barrier, bytes);
  });
}

inline void store_bytes(float* destination, uint32_t source, uint32_t bytes) {
  emulated::add_bulk([=] { std::memcpy(destination, emulated::shared_memory() + source, bytes); });
}
inline void add_floats(float* destination, uint32_t source, uint32_t bytes) {
  emulated::add_bulk([=] {
    for (uint32_t i = 0; i < bytes / 4; ++i) {
      float value;
      std::memcpy(&value, emulated::shared_memory() + source + 4 * i, 4);
      destination[i] += value;
    }
  });
}
inline void bulk_commit() {
  emulated::commit_bulk();
}
template <int kPending>
void bulk_wait_read() {
  emulated::wait_bulk(kPending);
}
inline void bulk_wait() {
  emulated::wait_bulk(0);
}

inline void async_fence() {}
template <int kNumber, int kThreads>
void named_barrier() {
  emulated::meet(kNumber, kThreads);
}
template <int kThreads>
void named_barrier_wait(int number) {
  emulated::meet(number, kThreads);
}
template <int kThreads>
void named_barrier_arrive(int number) {
  emulated::arrive(number, kThreads);
}
template <int kRegisters>
void give_registers() {}
template <int kRegisters>
void take_registers() {}

}  // namespace litespark::cuda
