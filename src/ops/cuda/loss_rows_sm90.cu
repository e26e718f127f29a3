// SPDX-License-Identifier: Apache-2.0
// Launches the cross-entropy whose rows pass through shared memory: as many clusters as run at once, each going over
// rows.
#include <algorithm>

#include "ops/cuda/check.h"
#include "ops/cuda/device/loss_rows.cuh"
#include "ops/cuda/device_context.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/loss.h"

namespace litespark::cuda {
namespace {

template <class T, int kGroups>
__global__ void __launch_bounds__(kRowThreads, 1) loss_rows_kernel(CrossEntropyArgs<T> args) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char raw[];
  loss_rows_block<T, kGroups>(*reinterpret_cast<RowRing*>(raw), args);
#else
  __trap();  // a newer device that runs an older architecture's code must not go on with logits as gradients
#endif
}
static_assert(sizeof(RowRing) <= kRowStages * kRowStageBytes + kLossReservedBytes);

template <class T, int kGroups>
void launch(const CrossEntropyArgs<T>& args, int blocks, const DeviceContext& context) {
  constexpr std::string_view kName = op::CrossEntropy<Tensor>::kName;
  const auto kernel = loss_rows_kernel<T, kGroups>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(RowRing)), kName);
  const int64_t clusters = std::min<int64_t>(args.rows, std::max(context.num_multiprocessors / blocks, 1));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {.x = static_cast<unsigned>(blocks), .y = 1, .z = 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid_size(kName, clusters * blocks);
  config.blockDim = kRowThreads;
  config.dynamicSmemBytes = sizeof(RowRing);
  config.stream = context.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, args), kName);
}

}  // namespace

template <class T>
void launch_loss_rows(const CrossEntropyArgs<T>& args, const LossRing& ring, const DeviceContext& context) {
  if (ring.groups == kMaxRowGroups) {
    launch<T, kMaxRowGroups>(args, ring.blocks, context);
  } else {
    launch<T, 1>(args, ring.blocks, context);
  }
}
template void launch_loss_rows(const CrossEntropyArgs<float>&, const LossRing&, const DeviceContext&);
template void launch_loss_rows(const CrossEntropyArgs<bf16>&, const LossRing&, const DeviceContext&);

}  // namespace litespark::cuda
