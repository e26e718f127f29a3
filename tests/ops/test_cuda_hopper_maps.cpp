// SPDX-License-Identifier: Apache-2.0
// The Hopper layouts: wgmma's reading of shared memory through a descriptor is emulated on the CPU (PTX ISA, "matrix
// descriptor" and the canonical 128-byte swizzled layouts), and every walk over a tile reads the element it should.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "ops/cuda/device/hopper_maps.h"

namespace litespark::cuda {
namespace {

/// Fields as the hardware takes them out of a descriptor.
struct Descriptor {
  uint32_t start, leading, stride;
  explicit Descriptor(uint64_t bits)
      : start(static_cast<uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4) {
    EXPECT_EQ(bits >> 62, 1u) << "128-byte swizzle";
    EXPECT_EQ(bits >> 49 & 7, 0u) << "base offset";
  }
  /// Byte of element (mn, k) of a K-major operand: groups of 8 rows `stride` apart, 128-byte rows.
  uint32_t k_major(int mn, int k) const {
    return swizzled_128(start + static_cast<uint32_t>(mn / 8) * stride + static_cast<uint32_t>(mn % 8 * 128 + k * 2));
  }
  /// Of an MN-major one: 64 elements of mn a row, panels `leading` apart, groups of 8 k `stride` apart.
  uint32_t mn_major(int mn, int k) const {
    return swizzled_128(start + static_cast<uint32_t>(mn / 64) * leading + static_cast<uint32_t>(k / 8) * stride +
                        static_cast<uint32_t>(k % 8 * 128 + mn % 64 * 2));
  }
};

struct TileSize {
  int rows, columns;
};
const TileSize kTiles[] = {{64, 64}, {128, 64}, {128, 128}, {64, 128}, {128, 256}};

TEST(HopperMaps, ATileHasOneByteAddressAnElement) {
  for (const auto& [rows, columns] : kTiles) {
    std::set<uint32_t> bytes;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) bytes.insert(panel_byte(rows, row, column));
    }
    EXPECT_EQ(bytes.size(), static_cast<size_t>(rows * columns));
    EXPECT_EQ(*bytes.rbegin(), static_cast<uint32_t>(rows * columns * 2 - 2));
  }
}

TEST(HopperMaps, KMajorStepsReadTheTileRowByRow) {
  for (const auto& [rows, columns] : kTiles) {
    for (int first_row = 0; first_row < rows; first_row += 64) {
      for (int step = 0; step < columns / 16; ++step) {
        const uint32_t start = static_cast<uint32_t>(first_row * kPanelRowBytes) + k_major_offset(rows, step);
        const Descriptor descriptor(matrix_descriptor(start, 0, kRowGroupBytes));
        for (int mn = 0; mn < 64; ++mn) {
          for (int k = 0; k < 16; ++k) {
            ASSERT_EQ(descriptor.k_major(mn, k), panel_byte(rows, first_row + mn, 16 * step + k));
          }
        }
      }
    }
  }
}

TEST(HopperMaps, MnMajorStepsReadTheTileColumnByColumn) {
  for (const auto& [rows, columns] : kTiles) {
    for (int step = 0; step < rows / 16; ++step) {
      const Descriptor descriptor(matrix_descriptor(mn_major_offset(step), mn_major_leading(rows), kRowGroupBytes));
      for (int mn = 0; mn < columns; ++mn) {
        for (int k = 0; k < 16; ++k) ASSERT_EQ(descriptor.mn_major(mn, k), panel_byte(rows, 16 * step + k, mn));
      }
    }
  }
}

TEST(HopperMaps, AccumulatorsCoverSixtyFourRowsOnce) {
  std::set<std::pair<int, int>> elements;
  for (int warp = 0; warp < 4; ++warp) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 64; ++i) elements.insert({accumulator_row(warp, lane, i), accumulator_column(lane, i)});
    }
  }
  EXPECT_EQ(elements.size(), 64u * 128u);
}

// The probabilities of 16 keys: registers 0..3 take accumulators 8 s + 2 r and 8 s + 2 r + 1.
TEST(HopperMaps, AccumulatorsAreAnAOperandInTheirOwnLane) {
  for (int warp = 0; warp < 4; ++warp) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int step = 0; step < 8; ++step) {
        for (int index = 0; index < 4; ++index) {
          for (int half = 0; half < 2; ++half) {
            const int accumulator = 8 * step + 2 * index + half;
            ASSERT_EQ(accumulator_row(warp, lane, accumulator), a_register_row(warp, lane, index));
            ASSERT_EQ(accumulator_column(lane, accumulator), 16 * step + a_register_column(lane, index, half));
          }
        }
      }
    }
  }
}

// A producer and a consumer that take one step whenever their wait lets them never meet a wrong phase, whoever is
// ahead.
TEST(HopperMaps, APipelineNeverReadsWhatIsNotThereNorOverwritesWhatIsRead) {
  constexpr int kStages = 2;
  for (unsigned order = 0; order < 1u << 12; ++order) {
    PipelineState<kStages> producer, consumer;
    int full_phases[kStages] = {};  // completed phases of each barrier
    int empty_phases[kStages] = {};
    int content[kStages] = {-1, -1};
    const auto passes = [](int phases, uint32_t parity) {
      // A wait passes when the phase of that parity is complete: the current one is phases, the previous phases - 1.
      return (static_cast<uint32_t>(phases) & 1u) != parity;
    };
    int produced = 0;
    int consumed = 0;
    for (int tick = 0; tick < 48; ++tick) {
      const bool producer_turn = (order >> (tick % 12) & 1u) != 0;
      if (producer_turn && passes(empty_phases[producer.stage], producer.empty_parity())) {
        ASSERT_TRUE(content[producer.stage] == -1) << "overwritten";
        content[producer.stage] = produced++;
        ++full_phases[producer.stage];
        producer.advance();
      } else if (!producer_turn && passes(full_phases[consumer.stage], consumer.full_parity())) {
        ASSERT_EQ(content[consumer.stage], consumed) << "read out of turn";
        content[consumer.stage] = -1;
        ++consumed;
        ++empty_phases[consumer.stage];
        consumer.advance();
      }
    }
    ASSERT_LE(consumed, produced);
  }
}

}  // namespace
}  // namespace litespark::cuda
