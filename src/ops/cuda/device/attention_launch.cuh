// SPDX-License-Identifier: Apache-2.0
// Host side that the portable attention kernels share: the head sizes they exist for, and their grid.
#pragma once

#include <string_view>
#include <type_traits>

#include "core/error.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/attention_kernel.cuh"
#include "ops/cuda/device/attention_parts.cuh"
#include "ops/cuda/device/attention_tile.cuh"

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

/// Calls `body(has_alibi, is_part)` with both as compile-time constants.
template <class Body>
void visit_form(const AttentionArguments& arguments, Body&& body) {
  const auto visit_part = [&](auto has_alibi) {
    if (arguments.is_part()) return body(has_alibi, std::true_type{});
    return body(has_alibi, std::false_type{});
  };
  if (arguments.has_alibi) return visit_part(std::true_type{});
  return visit_part(std::false_type{});
}

/// Blocks along x: every tile of every document, whatever the packing; of a part, of those of a chunk.
template <int kTile = kAttentionTile>
unsigned tile_blocks(const AttentionArguments& arguments) {
  const int num_rows = arguments.num_tokens / (arguments.is_part() ? kChunksOfRank : 1);
  const int64_t blocks = arguments.uniform_length > 0
                             ? int64_t{arguments.max_documents} * tiles_of<kTile>(arguments.uniform_length)
                             : tile_capacity<kTile>(num_rows, arguments.max_documents);
  return static_cast<unsigned>(blocks);
}

struct TileLaunch {
  void (*kernel)(AttentionArguments) = nullptr;
  int num_heads = 0;  ///< blocks along y
  int shared_bytes = 0;
  std::string_view name;
};

/// One block of kAttentionThreads a (tile, head), and chunk of a part.
inline void launch_tiles(const TileLaunch& launch, const AttentionArguments& arguments, const DeviceContext& context) {
  launch_kernel({.kernel = launch.kernel,
                 .blocks_x = tile_blocks(arguments),
                 .blocks_y = static_cast<unsigned>(launch.num_heads),
                 .blocks_z = arguments.is_part() ? kChunksOfRank : 1u,
                 .threads = kAttentionThreads,
                 .shared_bytes = launch.shared_bytes,
                 .name = launch.name},
                arguments, context);
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
