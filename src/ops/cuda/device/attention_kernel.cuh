// SPDX-License-Identifier: Apache-2.0
// The launch of one of our attention kernels, and nothing else: the tests that run kernels on the CPU have their own.
#pragma once

#include <string_view>

#include "core/error.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/check.h"

namespace litespark::cuda {

template <class Arguments, class... Maps>
struct AttentionKernelOf {
  void (*kernel)(Arguments, Maps...) = nullptr;
  unsigned blocks_x = 1, blocks_y = 1, blocks_z = 1;
  int threads = 0;
  int shared_bytes = 0;  ///< of launched_shared()
  std::string_view name;
};

template <class Arguments, class... Maps>
void launch_kernel(const AttentionKernelOf<Arguments, Maps...>& launch, const Arguments& arguments,
                   const DeviceContext& context, const Maps&... maps) {
  if (launch.shared_bytes > context.shared_bytes_per_block) {
    throw DeviceError(launch.name, "this device has too little shared memory a block", context.shared_bytes_per_block,
                      launch.shared_bytes, "use heads of a smaller size");
  }
  check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes),
        launch.name);
  launch.kernel<<<dim3(launch.blocks_x, launch.blocks_y, launch.blocks_z), launch.threads,
                  static_cast<size_t>(launch.shared_bytes), context.stream>>>(arguments, maps...);
  check_launch(launch.name);
}

}  // namespace litespark::cuda
