// SPDX-License-Identifier: Apache-2.0
// Rotary positions in the Hopper attention forward: a warpgroup rotates tiles of queries and of keys where they lie in
// shared memory, after their copy and before the products that read them. Rotated numbers are rounded as op::Rope
// stores them, so that outputs have the bits of op::Rope and the plain forward.
#pragma once

#include "ops/cuda/device/attention_forward_work.cuh"
#include "ops/cuda/device/rotary.cuh"

namespace litespark::cuda {

/// A unit is 8 pairs of a row. Angles of the next kHeld units are on their way from the L2 cache or in registers: of a
/// whole tile with heads of 64, with heads of 128 what registers there are for.
template <int kHeadDim, class Angle>
struct RotaryShape {
  static constexpr int kUnitPairs = 8;
  static constexpr int kRowUnits = kHeadDim / (2 * kUnitPairs);
  static constexpr int kRowsAtOnce = kWarpSize / kRowUnits;  ///< of a warp
  static constexpr int kWarpRows = kWarpSize;                ///< of a tile: a lane knows the position of one
  static constexpr int kTileRows = kWarpRows * kWarpgroupThreads / kWarpSize;
  static constexpr int kUnits = kWarpRows / kRowsAtOnce;  ///< of a thread
  static constexpr int kHeld = kHeadDim == 64 ? kUnits : 12 / static_cast<int>(sizeof(Angle));
};

/// A thread of the warpgroup: what it does with every tile.
template <int kHeadDim, class Angle>
class Rotator {
 public:
  using Shape = RotaryShape<kHeadDim, Angle>;
  static_assert(kHeadDim % kPanelColumns == 0);

  __device__ explicit Rotator(const AttentionArguments& arguments)
      : table_(static_cast<const Angle*>(arguments.angles.table) + lane() % Shape::kRowUnits * Shape::kUnitPairs),
        positions_(arguments.angles.positions),
        last_token_(arguments.num_tokens - 1),
        place_(panel_byte(Shape::kTileRows, first_warp_row() + row(0), lane() % Shape::kRowUnits * Shape::kUnitPairs)) {
  }

  /// A tile that begins with the row `first_token` of the batch, once its copy has completed `full_parity` of `full`:
  /// for products that follow the warp's next arrival. Rows that the batch does not have are rotated like its first or
  /// last one.
  __device__ void rotate(bf16* tile, int first_token, const uint64_t* full, uint32_t full_parity) const {
    const int token = min(max(first_token + first_warp_row() + lane(), 0), last_token_);
    const int position = positions_[token];
    Angles held[Shape::kHeld];
#pragma unroll
    for (int unit = 0; unit < Shape::kHeld; ++unit) held[unit] = load(position, unit);
    barrier_wait(shared_address(full), full_parity);
#pragma unroll
    for (int unit = 0; unit < Shape::kUnits; ++unit) {
      Angles& angles = held[unit % Shape::kHeld];
      unsigned char* const low = reinterpret_cast<unsigned char*>(tile) + place(unit);
      unsigned char* const high =
          reinterpret_cast<unsigned char*>(tile) + advance_columns(place(unit), Shape::kTileRows, kHeadDim / 32);
      rotate_unit(low, high, angles);
      if (unit + Shape::kHeld < Shape::kUnits) angles = load(position, unit + Shape::kHeld);
    }
    async_fence();
  }

 private:
  struct Angles {
    Pack<Angle, Shape::kUnitPairs> cosine, sine;
  };
  using Chunk = Pack<bf16, Shape::kUnitPairs>;

  __device__ static int lane() {
    return static_cast<int>(threadIdx.x) % kWarpSize;
  }
  __device__ static int first_warp_row() {
    return static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize * Shape::kWarpRows;
  }

  /// Of the warp's rows, that of the thread's unit. Eight lanes at a time access 16 bytes each: all chunks of a row's
  /// panel, or, where half a head is half a panel, those of two rows, four apart, so that the swizzle puts one's into
  /// the half that the other leaves.
  __device__ static int row(int unit) {
    const int part = lane() / Shape::kRowUnits;
    return unit * Shape::kRowsAtOnce + (kHeadDim == 64 ? part % 2 * 4 + part / 2 : part);
  }

  /// Byte of a unit's first numbers of pairs; the second ones are half a head further on. The swizzle goes by the
  /// lowest three bits of a row's number, of which units change at most the highest.
  __device__ uint32_t place(int unit) const {
    constexpr int kRows = Shape::kRowsAtOnce;
    return (place_ ^ static_cast<uint32_t>(unit * kRows % 8 * 16)) +
           static_cast<uint32_t>(unit * kRows * kPanelRowBytes);
  }

  /// `position` is that of the warp's row number lane().
  __device__ Angles load(int position, int unit) const {
    const Angle* const at = table_ + int64_t{__shfl_sync(kFullWarp, position, row(unit))} * kHeadDim;
    return {.cosine = load_pack<Shape::kUnitPairs>(at), .sine = load_pack<Shape::kUnitPairs>(at + kHeadDim / 2)};
  }

  __device__ static void rotate_unit(unsigned char* low, unsigned char* high, const Angles& angles) {
    const Chunk was_low = *reinterpret_cast<const Chunk*>(low);
    const Chunk was_high = *reinterpret_cast<const Chunk*>(high);
    uint32_t words[2][Shape::kUnitPairs / 2];
#pragma unroll
    for (int i = 0; i < Shape::kUnitPairs; i += 2) {
      float2 lows = make_float2(was_low[i], was_low[i + 1]);
      float2 highs = make_float2(was_high[i], was_high[i + 1]);
      PairAngles{.cosine = make_float2(angles.cosine[i], angles.cosine[i + 1]),
                 .sine = make_float2(angles.sine[i], angles.sine[i + 1])}
          .rotate(lows, highs);
      words[0][i / 2] = pack_bf16(lows.x, lows.y);
      words[1][i / 2] = pack_bf16(highs.x, highs.y);
    }
    *reinterpret_cast<uint4*>(low) = make_uint4(words[0][0], words[0][1], words[0][2], words[0][3]);
    *reinterpret_cast<uint4*>(high) = make_uint4(words[1][0], words[1][1], words[1][2], words[1][3]);
  }

  const Angle* table_;  ///< at the thread's own pairs
  const int32_t* positions_;
  int last_token_;
  uint32_t place_;  ///< of the first unit
};

/// Calls `body` with the type of the table's numbers.
template <class Body>
__device__ void visit_angles(const RotaryAngles& angles, const Body& body) {
  if (angles.dtype == DType::kF32) return body(TypeTag<float>{});
  if (angles.dtype == DType::kBF16) return body(TypeTag<bf16>{});
  body(TypeTag<fp16>{});
}

}  // namespace litespark::cuda
