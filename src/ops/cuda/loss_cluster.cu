// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy with a cluster of blocks a row: the row stays in the registers of the cluster between its one
// read and its one write, whatever its length up to 262,144 bf16 logits.
#include "core/op/loss.h"
#include "core/tensor.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device/cluster.cuh"
#include "ops/cuda/device/online_softmax.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/loss.h"

namespace litespark::cuda {
namespace {

inline constexpr int kClusterThreads = 512;

template <class T>
__global__ void __launch_bounds__(kClusterThreads) cross_entropy_cluster_kernel(CrossEntropyArgs<T> args);

}  // namespace

template <class T>
void launch_cross_entropy_cluster(const CrossEntropyArgs<T>& args, const LossCluster& cluster, int64_t rows,
                                  cudaStream_t stream) {
  constexpr std::string_view kName = op::CrossEntropy<Tensor>::kName;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {.x = static_cast<unsigned>(cluster.blocks), .y = 1, .z = 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid_size(kName, rows * cluster.blocks);
  config.blockDim = static_cast<unsigned>(cluster.threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, cross_entropy_cluster_kernel<T>, args), kName);
}
template void launch_cross_entropy_cluster(const CrossEntropyArgs<float>&, const LossCluster&, int64_t, cudaStream_t);
template void launch_cross_entropy_cluster(const CrossEntropyArgs<bf16>&, const LossCluster&, int64_t, cudaStream_t);

namespace {

// Thread t of block b holds vectors (h * blocks + b) * threads + t for h = 0 .. 7. Its blocks' sums go to every block
// of the cluster and are merged there in the order of ranks, so that all agree on every bit.
// Traffic a logit: one read, one write: 4 bytes in bf16.
template <class T>
__global__ void __launch_bounds__(kClusterThreads) cross_entropy_cluster_kernel(CrossEntropyArgs<T> args) {
#if __CUDA_ARCH__ >= 900
  constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  __shared__ OnlineSum warp_sums[kClusterThreads / kWarpSize];
  __shared__ __align__(8) OnlineSum block_sums[kMaxClusterBlocks];
  const auto blocks = static_cast<int>(cluster_blocks());
  const auto rank = static_cast<int>(cluster_rank());
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int64_t row = blockIdx.x / static_cast<unsigned>(blocks);
  T* logits = args.logits + row * args.columns;
  const int vectors = args.columns / kWidth;
  const int label = args.labels[row];
  const bool scored = label >= 0 && label < args.columns;
  cluster_arrive();  // that the others have begun: their shared memory is written below

  Pack<T, kWidth> packs[kClusterHeldVectors];
  const auto vector_of = [&](int h) { return (h * blocks + rank) * threads + thread; };
  const bool is_read = scored || args.log_sum_exp != nullptr;
#pragma unroll
  for (int h = 0; h < kClusterHeldVectors; ++h) {
    if (is_read && vector_of(h) < vectors) packs[h] = load_pack<kWidth>(logits + vector_of(h) * kWidth);
  }
  const bool reports = rank == 0 && thread == 0;
  const float label_logit = reports && scored ? as_float(logits[label]) : 0.0f;
  OnlineSum sum;
#pragma unroll
  for (int h = 0; h < kClusterHeldVectors; ++h) {
    if (is_read && vector_of(h) < vectors) sum = fold<T>(sum, packs[h]);
  }
  sum = block_merge<T>(sum, warp_sums);
  cluster_wait();
  if (thread < blocks) {
    store_to_block(&block_sums[rank], static_cast<uint32_t>(thread), sum.max, sum.sum);
  }
  cluster_arrive();
  cluster_wait();  // also: every logit of the row, the label's among them, has been read
  OnlineSum total = block_sums[0];
  for (int b = 1; b < blocks; ++b) total = merge<T>(total, block_sums[b]);
  const float log_sum_exp = log_of<T>(total);
  if (reports) {
    if (args.log_sum_exp != nullptr) args.log_sum_exp[row] = log_sum_exp;
    args.losses[row] = scored ? log_sum_exp - label_logit : 0.0f;
    if (!scored && label != op::kIgnoredLabel) {
      atomicAdd(reinterpret_cast<unsigned long long*>(&args.state->bad_tokens), 1ull);
    }
  }
  if (!args.write_gradient) return;

  const RowGradient<T> gradient(total, log_sum_exp, args.z_coefficient);
#pragma unroll
  for (int h = 0; h < kClusterHeldVectors; ++h) {
    if (vector_of(h) >= vectors) break;
    float values[kWidth] = {};
    if (scored) gradient.of(packs[h], vector_of(h) * kWidth, label, values);
    store_floats(logits + vector_of(h) * kWidth, values);
  }
#endif
}

}  // namespace
}  // namespace litespark::cuda
