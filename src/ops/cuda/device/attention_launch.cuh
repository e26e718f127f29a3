// SPDX-License-Identifier: Apache-2.0
// Host side that the portable attention kernels share: the head sizes they exist for, and their grid.
#pragma once

#include <string_view>
#include <type_traits>

#include "core/error.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device/attention_tile.cuh"
#include "ops/cuda/device/document_tile.cuh"

namespace litespark::cuda {

/// Calls `body` with the head size as a compile-time constant.
template <class Body>
void visit_head_dim(int head_dim, Body&& body) {
  switch (head_dim) {
    case 16: return body(std::integral_constant<int, 16>{});
    case 32: return body(std::integral_constant<int, 32>{});
    case 64: return body(std::integral_constant<int, 64>{});
    case 96: return body(std::integral_constant<int, 96>{});
    case 128: return body(std::integral_constant<int, 128>{});
    case 256: return body(std::integral_constant<int, 256>{});
    default: throw InternalError("attention", "no tensor kernel for heads of this size", head_dim, "16 .. 256");
  }
}

__host__ __device__ inline DocumentTable document_table(const AttentionArguments& arguments) {
  return {.offsets = arguments.offsets,
          .num_documents = arguments.num_documents,
          .max_documents = arguments.max_documents,
          .num_tokens = arguments.num_tokens,
          .uniform_length = arguments.uniform_length};
}

/// Blocks along x: every tile of every document, whatever the packing.
inline unsigned tile_blocks(const AttentionArguments& arguments) {
  const int64_t blocks = arguments.uniform_length > 0
                             ? int64_t{arguments.max_documents} * tiles_of(arguments.uniform_length)
                             : tile_capacity(arguments.num_tokens, arguments.max_documents);
  return static_cast<unsigned>(blocks);
}

struct TileLaunch {
  void (*kernel)(AttentionArguments) = nullptr;
  int num_heads = 0;  ///< blocks along y
  int shared_bytes = 0;
  std::string_view name;
};

/// One block of kAttentionThreads a (tile, head).
inline void launch_tiles(const TileLaunch& launch, const AttentionArguments& arguments, const DeviceContext& context) {
  if (launch.shared_bytes > context.shared_bytes_per_block) {
    throw DeviceError(launch.name, "this device has too little shared memory a block", context.shared_bytes_per_block,
                      launch.shared_bytes, "use heads of a smaller size");
  }
  check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes),
        launch.name);
  const dim3 grid(tile_blocks(arguments), static_cast<unsigned>(launch.num_heads));
  launch.kernel<<<grid, kAttentionThreads, static_cast<size_t>(launch.shared_bytes), context.stream>>>(arguments);
  check_launch(launch.name);
}

/// Launches the form of a backward kernel that loads the next tile while it works on one, where two stages fit in a
/// block's shared memory, and else the form with one. `launch_form(stages)` gets the number as a constant.
template <class LaunchForm>
void launch_with_stages(int two_stage_bytes, const DeviceContext& context, LaunchForm&& launch_form) {
  if (two_stage_bytes <= context.shared_bytes_per_block) {
    launch_form(std::integral_constant<int, 2>{});
  } else {
    launch_form(std::integral_constant<int, 1>{});
  }
}

}  // namespace litespark::cuda
