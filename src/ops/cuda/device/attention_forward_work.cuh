// SPDX-License-Identifier: Apache-2.0
// What a block of the Hopper attention forward works on: tiles of queries of a head, drawn one after another, and the
// key tiles that each of them sees.
#pragma once

#include <type_traits>

#include "core/op/attention_fp8.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/attention_parts.cuh"
#include "ops/cuda/device/fp8_codes.cuh"
#include "ops/cuda/device/hopper_tile.cuh"
#include "ops/cuda/device/turns.cuh"
#include "ops/cuda/heuristics/attention_early_band.h"

namespace litespark::cuda {

/// What a kernel computes: whole attention, a part that context ranks share, whole attention on 8-bit floats, whole
/// attention on queries and keys that it rotates by their positions itself.
enum class ForwardForm { kWhole, kPart, kFp8, kRotated };

/// How a block divides its tile. Heads of 64 and 96 leave registers for a third warpgroup, and are bound by
/// exponentials, of which more are under way then; but who finds the keys of a part needs registers too, and so does
/// who rotates tiles. Tiles of 8-bit floats are half as large, so that more of them are under way.
///
/// Registers of a consuming thread, of the accumulators: scores, probabilities, output. Shared memory of the tiles:
/// queries, keys, values.
///
///   heads           queries x keys  registers           of which    KiB
///   64              192 x 128       64 + 32 + 32 = 128  160         2 x 24 + 4 x 16 + 4 x 16 = 176
///   64, a part      128 x 128       64 + 32 + 32 = 128  224         2 x 16 + 4 x 16 + 4 x 16 = 160
///   96              192 x 96        48 + 24 + 48 = 120  160         2 x 36 + 4 x 18 + 4 x 18 = 216
///   96, a part      128 x 128       64 + 32 + 48 = 144  224         2 x 24 + 3 x 24 + 4 x 24 = 216
///   128             128 x 128       64 + 32 + 64 = 160  224         2 x 32 + 2 x 32 + 3 x 32 = 224
///   128, 8-bit      128 x 128       64 + 16 + 64 = 144  224         2 x 32 + 4 x 16 + 4 x 16 = 192
///   64, rotated     128 x 128       64 + 32 + 32 = 128  184         2 x 16 + 4 x 16 + 4 x 16 = 160
///   128, rotated    128 x 128       64 + 32 + 64 = 160  200         2 x 32 + 2 x 32 + 3 x 32 = 224
///   256             128 x 80        40 + 20 + 128 = 188 232         1 x 64 + 2 x 40 + 2 x 40 = 224
template <int kHeadDim, ForwardForm kForm>
struct ForwardShape {
  static constexpr bool kIsPart = kForm == ForwardForm::kPart;
  static constexpr bool kIsFp8 = kForm == ForwardForm::kFp8;
  static constexpr bool kIsRotated = kForm == ForwardForm::kRotated;
  using Element = std::conditional_t<kIsFp8, e4m3, bf16>;
  static constexpr int kWarpgroups = !kIsPart && !kIsRotated && (kHeadDim == 64 || kHeadDim == 96) ? 3 : 2;
  static constexpr int kQueries = 64 * kWarpgroups;
  static constexpr int kKeys = kHeadDim == 256 ? 80 : kHeadDim == 96 && !kIsPart ? 96 : 128;
  static constexpr int kConsumers = kWarpgroups * kWarpgroupThreads;
  static constexpr int kThreads = kConsumers + (kIsRotated ? 2 : 1) * kWarpgroupThreads;
  static constexpr int kProducerRegisters = kWarpgroups == 3 || kIsRotated ? 32 : kHeadDim == 256 ? 40 : 56;
  static constexpr int kConsumerRegisters = kIsRotated         ? (kHeadDim == 64 ? 184 : 200)
                                            : kWarpgroups == 3 ? 160
                                            : kHeadDim == 256  ? 232
                                                               : 224;
  static constexpr int kRotatorRegisters = kHeadDim == 64 ? 112 : 80;  ///< of the last warpgroup, which rotates
  /// Of two tiles of queries, each is handed back whole, once output has left through its place. Of a single one, each
  /// warpgroup hands its part back with its last scores.
  static constexpr int kQueryStages = kHeadDim == 256 ? 1 : 2;
  static constexpr bool kHandsBackEarly = kQueryStages == 1;
  static constexpr int kQueryParts = kHandsBackEarly ? kWarpgroups : 1;
  static constexpr int kQueryRows = kQueries / kQueryParts;
  /// Work that is known: the next, and what warpgroups are at. Without a tile to wait for they may be at two.
  static constexpr int kWorkPlaces = kHandsBackEarly ? 3 : 2;
  static constexpr int kKeyStages = kHeadDim >= 128 && !kIsFp8 ? 2 : kHeadDim == 96 && kKeys > 96 ? 3 : 4;
  static constexpr int kValueStages = kHeadDim == 256 ? 2 : kHeadDim == 128 && !kIsFp8 ? 3 : 4;
  static constexpr int kArrivals = kConsumers / kWarpSize * kWarpArrivals;
  static constexpr int kQueryArrivals = kArrivals / kQueryParts + 1;  ///< consumers, and who copies values
  static constexpr int kRowBytes = kIsFp8 ? kPanelRowBytes : panel_row_bytes(kHeadDim);  ///< of panels
  static constexpr int kScores = kKeys / 2;  ///< accumulators of 64 x kKeys scores in a thread
  /// Products of the tensor cores, each of which sums over 32 bytes of both operands: over a head, and over the keys of
  /// a tile.
  static constexpr int kScoreSteps = kHeadDim * static_cast<int>(sizeof(Element)) / 32;
  static constexpr int kSumSteps = kKeys * static_cast<int>(sizeof(Element)) / 32;
};

/// (tile, head) slots that blocks share, heads outermost: those who read the same keys work at about the same time.
struct ForwardGrid {
  int tiles = 0;  ///< of a head
  int heads = 0;
  int halves = 1;  ///< chunks of queries
  int blocks = 1;

  __host__ __device__ int slots() const { return tiles * heads * halves; }
};

/// Key tiles that a tile of queries sees, numbered as in their document.
template <int kQueries, int kKeys, ForwardForm kForm>
class KeyWalk {
 public:
  using Run = MetRows<kQueries, kKeys>;

  __device__ void find(const AttentionArguments& arguments, const DocumentTileOf<kQueries>& at, int /*half*/) {
    late_ = {.begin = at.begin, .band = {.length = at.length, .window = arguments.window}};
    range_ = late_.band.key_tiles_of(at.first());
  }

  __device__ TileRange range() const { return range_; }
  __device__ Run run(int /*number*/) const { return late_; }
  __device__ int tile(int number) const { return number; }
  /// The last number of which a query up to `last_query` sees something.
  __device__ int last_seen(int last_query) const { return late_.band.last_key(last_query) / kKeys; }
  /// Numbers whose keys are all seen by those of 64 queries that exist.
  __device__ TileRange unmasked(int first_query) const {
    return {.begin = (late_.band.first_key(first_query + 63) + kKeys - 1) / kKeys, .end = (first_query + 1) / kKeys};
  }

 private:
  Run late_;
  TileRange range_;
};

/// Of a part: key tiles of the earlier chunk of keys from 0 on, and behind them those of the later one.
template <int kQueries, int kKeys>
class KeyWalk<kQueries, kKeys, ForwardForm::kPart> {
 public:
  using Run = MetRows<kQueries, kKeys>;

  __device__ void find(const AttentionArguments& arguments, const DocumentTileOf<kQueries>& at, int half) {
    border_ = late_shift_ = early_shift_ = end_ = 0;
    bool has_late = false;
    for_each_key_run<true, kKeys>(arguments, at, half, [&](const Run& run) {
      const TileRange tiles = run.band.key_tiles(at.tile);
      if (tiles.begin == tiles.end) return;
      if (!has_late) {
        late_ = run;
        late_shift_ = tiles.begin;
        end_ = tiles.end - tiles.begin;
        has_late = true;
      } else {
        early_ = run;
        early_shift_ = tiles.begin;
        border_ = tiles.end - tiles.begin;
        late_shift_ -= border_;
        end_ += border_;
      }
    });
  }

  __device__ TileRange range() const { return {.begin = 0, .end = end_}; }
  __device__ Run run(int number) const { return number < border_ ? early_ : late_; }
  __device__ int tile(int number) const { return number + (number < border_ ? early_shift_ : late_shift_); }
  __device__ int last_seen(int /*last_query*/) const { return end_ - 1; }

 private:
  Run late_;
  Run early_;
  int late_shift_ = 0, early_shift_ = 0;  ///< from a number to the tile of its run
  int border_ = 0;                        ///< the first number of the late run
  int end_ = 0;
};

/// On 8-bit floats tiles begin where a group of exchanged values does: their first keys may be those of the document
/// before, which nobody sees.
template <int kQueries, int kKeys>
class KeyWalk<kQueries, kKeys, ForwardForm::kFp8> {
 public:
  struct Run {
    int begin = 0;
    EarlyBandOf<kQueries, kKeys> band;
  };

  __device__ void find(const AttentionArguments& arguments, const DocumentTileOf<kQueries>& at, int /*half*/) {
    const int early = at.begin % static_cast<int>(op::kFp8ValueGroup);
    run_ = {.begin = at.begin - early,
            .band = {.band = {.length = at.length, .window = arguments.window}, .early = early}};
    range_ = run_.band.key_tiles_of(at.first());
  }

  __device__ TileRange range() const { return range_; }
  __device__ Run run(int /*number*/) const { return run_; }
  __device__ int tile(int number) const { return number; }
  __device__ int last_seen(int last_query) const { return run_.band.last_key(last_query) / kKeys; }
  __device__ TileRange unmasked(int first_query) const { return run_.band.unmasked_tiles(first_query, 64); }

 private:
  Run run_;
  TileRange range_;
};

/// Rows of no document, and of a first part those that see no key: 0 and, in a part, a log-sum-exp of -infinity. In a
/// later part they are left alone. By a warp.
template <int kHeadDim, bool kIsPart, class Tile>
__device__ void clear_out(const AttentionArguments& arguments, const Tile& at, int head) {
  if (kIsPart && !arguments.first) return;
  constexpr int kElements = kIsPart ? 4 : 8;
  const int64_t first = (at.begin + at.first()) * arguments.out_stride() + head * kHeadDim;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll 1
  for (int i = lane; i < at.rows() * kHeadDim / kElements; i += kWarpSize) {
    const int64_t element =
        first + i / (kHeadDim / kElements) * arguments.out_stride() + i % (kHeadDim / kElements) * kElements;
    void* const chunk = kIsPart ? static_cast<void*>(arguments.merged + element)
                                : static_cast<void*>(static_cast<bf16*>(arguments.out) + element);
    *static_cast<uint4*>(chunk) = make_uint4(0, 0, 0, 0);
  }
  const int64_t stats = arguments.stats.start(head, 0, at.begin) + at.first();
#pragma unroll 1
  for (int i = lane; i < at.rows(); i += kWarpSize) {
    arguments.log_sum_exp[stats + i] = kIsPart ? -INFINITY : 0.0f;
  }
}

/// A tile of queries of one head, and the keys that it sees.
template <int kHeadDim, ForwardForm kForm>
struct ForwardWork {
  using Shape = ForwardShape<kHeadDim, kForm>;
  bool exists = false;  ///< else there is no more work
  DocumentTileOf<Shape::kQueries> at;
  int first = 0, rows = 0;  ///< of `at`
  int head = 0;
  KeyWalk<Shape::kQueries, Shape::kKeys, kForm> walk;

  /// The row of the first key of a tile.
  __device__ int first_key(int number) const { return walk.run(number).begin + walk.tile(number) * Shape::kKeys; }
  /// Whether it sees keys; else its output is to be cleared.
  __device__ bool sees() const { return at.document >= 0 && (!Shape::kIsPart || walk.range().end > 0); }
};

/// Which place of work is at hand, and which barriers of queries, after so many tiles. A single tile's barriers go by
/// whether their number, three times the phase and the place, is odd.
template <class Shape>
struct WorkState : PipelineState<Shape::kWorkPlaces> {
  constexpr int place() const { return this->stage; }
  constexpr int tile() const { return Shape::kHandsBackEarly ? 0 : this->stage; }
  constexpr int barrier(int part) const { return Shape::kHandsBackEarly ? part : this->stage; }
  constexpr uint32_t full_parity() const {
    return Shape::kHandsBackEarly ? this->phase ^ static_cast<uint32_t>(this->stage % 2) : this->phase;
  }
  constexpr uint32_t empty_parity() const { return full_parity() ^ 1; }
};

/// What a block works on, one after another: whoever is done draws the next slot.
template <int kHeadDim, ForwardForm kForm>
class ForwardQueue {
 public:
  using Work = ForwardWork<kHeadDim, kForm>;
  static constexpr bool kIsPart = Work::Shape::kIsPart;

  __device__ ForwardQueue(const AttentionArguments& arguments, const ForwardGrid& grid)
      : arguments_(arguments), grid_(grid) {
    draw();
  }

  /// By a whole warp; `work` is in shared memory.
  __device__ void next(Work& work) {
    for (;;) {
      const int slot = __shfl_sync(kFullWarp, drawn_, 0);
      const bool exists = slot < grid_.slots();
      if (exists) draw();
      const int row = slot / grid_.tiles;
      const int half = kIsPart ? row / grid_.heads : 0;
      const auto at = exists
                          ? find_query_tile<kIsPart, Work::Shape::kQueries>(arguments_, slot - row * grid_.tiles, half)
                          : DocumentTileOf<Work::Shape::kQueries>{};
      if (exists && at.rows() == 0) continue;
      if (threadIdx.x % kWarpSize == 0) {
        work.exists = exists;
        work.at = at;
        work.first = at.first();
        work.rows = at.rows();
        if (exists) work.head = arguments_.query_head(row - half * grid_.heads);
        if (at.document >= 0) work.walk.find(arguments_, at, half);
      }
      __syncwarp();
      return;
    }
  }

 private:
  /// Ahead of its use: the answer takes a microsecond.
  __device__ void draw() {
    if (threadIdx.x % kWarpSize == 0) drawn_ = draw_ticket(arguments_.tickets);
  }

  const AttentionArguments& arguments_;
  const ForwardGrid& grid_;
  int drawn_ = 0;  ///< of the first lane
};

}  // namespace litespark::cuda
