// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: blocks run one after another on the CPU.
#pragma once

#include <string>
#include <string_view>

#include "block.h"
#include "core/error.h"
#include "ops/cuda/attention_portable.h"

namespace litespark::cuda {

template <class Arguments, class... Maps>
struct AttentionKernelOf {
  void (*kernel)(Arguments, Maps...) = nullptr;
  unsigned blocks_x = 1, blocks_y = 1, blocks_z = 1;
  int threads = 0;
  int shared_bytes = 0;
  std::string_view name;
};

template <class Arguments, class... Maps>
void launch_kernel(const AttentionKernelOf<Arguments, Maps...>& launch, const Arguments& arguments,
                   const DeviceContext& context, const Maps&... maps) {
  if (launch.shared_bytes > context.shared_bytes_per_block) {
    throw InternalError(launch.name, "too little shared memory", context.shared_bytes_per_block, launch.shared_bytes);
  }
  for (unsigned block = 0; block < launch.blocks_x * launch.blocks_y * launch.blocks_z; ++block) {
    blockIdx = {.x = block % launch.blocks_x,
                .y = block / launch.blocks_x % launch.blocks_y,
                .z = block / launch.blocks_x / launch.blocks_y};
    const std::string failure = emulated::run_block(launch.threads, block, [&] { launch.kernel(arguments, maps...); });
    if (!failure.empty()) throw InternalError(launch.name, failure, block, "a block that ends");
  }
}

}  // namespace litespark::cuda
