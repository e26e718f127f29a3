// SPDX-License-Identifier: Apache-2.0
// Rotary positions on packed queries, keys and values, in place.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kRopeWarps = 4;
inline constexpr int kHeadBatch = 2;  // heads that a lane has under way at once

template <class T, class Angle>
struct RopeArgs {
  T* qkv;
  const Angle* table;
  const int32_t* positions;
  float* abs_max;  // may be nullptr
  int64_t tokens;
  int rotated_heads;
  int total_heads;
  int head_dim;
  float sign;  // -1 rotates back
};

template <class T, class Angle, int kWidth>
__global__ void __launch_bounds__(kRopeWarps* kWarpSize) rope_kernel(RopeArgs<T, Angle> args);

template <class Body>
void visit_angles(const Tensor& table, Body&& body) {
  if (table.dtype == DType::kF16) return body(TypeTag<fp16>{});
  visit_float_dtype("rope", table.dtype, body);
}

template <class T, class Angle>
void launch_rope(const op::Rope<Tensor>& op, cudaStream_t stream) {
  const RopeArgs<T, Angle> args{.qkv = op.qkv.as<T>(),
                                .table = op.table.as<Angle>(),
                                .positions = op.positions.as<int32_t>(),
                                .abs_max = pointer_or_null<float>(op.abs_max),
                                .tokens = op.qkv.rows(),
                                .rotated_heads = op.num_rotated_heads,
                                .total_heads = op.num_heads_total,
                                .head_dim = op.head_dim,
                                .sign = op.inverse ? -1.0f : 1.0f};
  const unsigned grid = grid_size(op.kName, ceil_div(args.tokens, kRopeWarps));
  if (op.head_dim % (2 * kVectorWidth) == 0) {
    rope_kernel<T, Angle, kVectorWidth><<<grid, kRopeWarps * kWarpSize, 0, stream>>>(args);
  } else {
    rope_kernel<T, Angle, 1><<<grid, kRopeWarps * kWarpSize, 0, stream>>>(args);
  }
}

}  // namespace

void CudaBackend::run(const op::Rope<Tensor>& op) {
  if (op.qkv.num_elements() == 0) return;
  visit_float_dtype(op.kName, op.qkv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_angles(op.table,
                 [&](auto angle_tag) { launch_rope<T, typename decltype(angle_tag)::type>(op, context_.stream); });
  });
  check_launch(op.kName);
}

namespace {

// A warp a token. A lane owns kWidth pairs of a head's D/2 and rotates them in every (32 / slots)-th head, so cosines
// and sines are read once a token and stay in registers. Traffic: the rotated heads read and written, 4 bytes an
// element in bf16; the table comes from L2 (4 D bytes a token, 2 D where it is kept in 16 bits). With abs_max the heads
// that are not rotated are read too.
template <class T, class Angle, int kWidth>
__global__ void __launch_bounds__(kRopeWarps* kWarpSize) rope_kernel(RopeArgs<T, Angle> args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kRopeWarps + static_cast<int>(threadIdx.x) / kWarpSize;
  if (token >= args.tokens) return;
  const int half = args.head_dim / 2;
  const int slots = half / kWidth;
  T* row = args.qkv + token * args.total_heads * args.head_dim;
  const Angle* angles = args.table + static_cast<int64_t>(args.positions[token]) * args.head_dim;
  float largest = 0;
  for (int first_slot = 0; first_slot < slots; first_slot += kWarpSize) {
    const int span = min(slots - first_slot, kWarpSize);
    const int heads_at_once = kWarpSize / span;
    if (lane >= heads_at_once * span) continue;
    const int pair = (first_slot + lane % span) * kWidth;
    float cosine[kWidth];
    float sine[kWidth];
    load_floats(angles + pair, cosine);
    load_floats(angles + half + pair, sine);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sine[i] *= args.sign;
    for (int first_head = lane / span; first_head < args.rotated_heads; first_head += kHeadBatch * heads_at_once) {
      Pack<T, kWidth> low[kHeadBatch];
      Pack<T, kWidth> high[kHeadBatch];
#pragma unroll
      for (int h = 0; h < kHeadBatch; ++h) {
        const int head = first_head + h * heads_at_once;
        if (head >= args.rotated_heads) break;
        low[h] = load_pack<kWidth>(row + head * args.head_dim + pair);
        high[h] = load_pack<kWidth>(row + head * args.head_dim + half + pair);
      }
#pragma unroll
      for (int h = 0; h < kHeadBatch; ++h) {
        const int head = first_head + h * heads_at_once;
        if (head >= args.rotated_heads) break;
        float rotated_low[kWidth];
        float rotated_high[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          rotated_low[i] = low[h][i] * cosine[i] - high[h][i] * sine[i];
          rotated_high[i] = high[h][i] * cosine[i] + low[h][i] * sine[i];
        }
        largest = larger_magnitude(larger_magnitude(largest, rotated_low), rotated_high);
        store_floats(row + head * args.head_dim + pair, rotated_low);
        store_floats(row + head * args.head_dim + half + pair, rotated_high);
      }
    }
  }
  if (args.abs_max == nullptr) return;
  for (int at = args.rotated_heads * args.head_dim + lane * kWidth; at < args.total_heads * args.head_dim;
       at += kWarpSize * kWidth) {
    const Pack<T, kWidth> pack = load_pack<kWidth>(row + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) largest = larger_magnitude(largest, pack[i]);
  }
  raise_abs_max_of<T>(args.abs_max, largest);
}

}  // namespace
}  // namespace litespark::cuda
