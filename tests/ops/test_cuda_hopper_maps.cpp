// SPDX-License-Identifier: Apache-2.0
// The Hopper layouts: wgmma's reading of shared memory through a descriptor is emulated on the CPU (PTX ISA, "matrix
// descriptor" and the canonical swizzled layouts), and every walk over a tile reads the element it should.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/cuda/device/hopper_maps.h"

namespace litespark::cuda {
namespace {

/// Fields as the hardware takes them out of a descriptor.
struct Descriptor {
  uint32_t start, leading, stride;
  int row_bytes;  ///< of the swizzle that it names
  explicit Descriptor(uint64_t bits)
      : start(static_cast<uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4),
        row_bytes(256 >> (bits >> 62)) {
    EXPECT_NE(bits >> 62, 0u) << "a swizzle";
    EXPECT_EQ(bits >> 49 & 7, 0u) << "base offset";
  }
  /// Byte of element (mn, k) of a K-major operand: groups of 8 rows `stride` apart.
  uint32_t k_major(int mn, int k) const {
    return swizzled(start + static_cast<uint32_t>(mn / 8) * stride + static_cast<uint32_t>(mn % 8 * row_bytes + k * 2),
                    row_bytes);
  }
  /// Of an MN-major one: a row holds as many elements of mn as it has room for, panels `leading` apart, groups of 8 k
  /// `stride` apart.
  uint32_t mn_major(int mn, int k) const {
    const int across = row_bytes / 2;
    return swizzled(start + static_cast<uint32_t>(mn / across) * leading + static_cast<uint32_t>(k / 8) * stride +
                        static_cast<uint32_t>(k % 8 * row_bytes + mn % across * 2),
                    row_bytes);
  }
};

struct TileSize {
  int rows, columns;
};
constexpr TileSize kTiles[] = {{64, 64}, {128, 64}, {128, 128}, {64, 128}, {128, 256}, {80, 256}};
constexpr TileSize kTilesOf96[] = {{64, 96}, {96, 96}, {128, 96}, {192, 96}};
constexpr TileSize kHalvesOf96[] = {{128, 48}, {128, 96}};

/// Calls body(row bytes as a constant, rows, columns) for tiles in panels of every width.
template <class Body>
void for_each_tile(const Body& body) {
  for (const auto& [rows, columns] : kTiles) body(std::integral_constant<int, 128>{}, rows, columns);
  for (const auto& [rows, columns] : kTilesOf96) body(std::integral_constant<int, 64>{}, rows, columns);
  for (const auto& [rows, columns] : kHalvesOf96) body(std::integral_constant<int, 32>{}, rows, columns);
}

TEST(HopperMaps, PanelsAreTheWidestThatHeadsAreWholeNumbersOf) {
  for (const int columns : {64, 128, 256}) EXPECT_EQ(panel_row_bytes(columns), 128);
  EXPECT_EQ(panel_row_bytes(96), 64);
  EXPECT_EQ(panel_row_bytes(48), 32);
}

TEST(HopperMaps, ATileHasOneByteAddressAnElement) {
  for_each_tile([](auto row_bytes, int rows, int columns) {
    std::set<uint32_t> bytes;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) bytes.insert(panel_byte<row_bytes()>(rows, row, column));
    }
    EXPECT_EQ(bytes.size(), static_cast<size_t>(rows * columns));
    EXPECT_EQ(*bytes.rbegin(), static_cast<uint32_t>(rows * columns * 2 - 2));
  });
}

// Else a product would read its operands in several turns.
TEST(HopperMaps, EightRowsOfSixteenBytesLieInDifferentBanks) {
  for_each_tile([](auto row_bytes, int rows, int columns) {
    for (int row = 0; row < rows; row += 8) {
      for (int column = 0; column < columns; column += 8) {
        std::set<uint32_t> banks;
        for (int i = 0; i < 8; ++i) banks.insert(panel_byte<row_bytes()>(rows, row + i, column) % 128);
        ASSERT_EQ(banks.size(), 8u) << row_bytes() << " bytes, row " << row << ", column " << column;
      }
    }
  });
}

TEST(HopperMaps, KMajorStepsReadTheTileRowByRow) {
  for_each_tile([](auto row_bytes, int rows, int columns) {
    constexpr int kRowBytes = row_bytes();
    for (int first_row = 0; first_row + 64 <= rows; first_row += 64) {
      for (int step = 0; step < columns / 16; ++step) {
        const auto start = static_cast<uint32_t>(first_row * kRowBytes);
        const Descriptor descriptor(
            advance_descriptor(k_major_descriptor<kRowBytes>(start), k_major_offset<kRowBytes>(rows, step)));
        for (int mn = 0; mn < 64; ++mn) {
          for (int k = 0; k < 16; ++k) {
            ASSERT_EQ(descriptor.k_major(mn, k), panel_byte<kRowBytes>(rows, first_row + mn, 16 * step + k));
          }
        }
      }
    }
  });
}

TEST(HopperMaps, MnMajorStepsReadTheTileColumnByColumn) {
  for_each_tile([](auto row_bytes, int rows, int columns) {
    constexpr int kRowBytes = row_bytes();
    for (int step = 0; step < rows / 16; ++step) {
      const Descriptor descriptor(
          advance_descriptor(mn_major_descriptor<kRowBytes>(0, rows), mn_major_offset<kRowBytes>(step)));
      for (int mn = 0; mn < columns; ++mn) {
        for (int k = 0; k < 16; ++k) {
          ASSERT_EQ(descriptor.mn_major(mn, k), panel_byte<kRowBytes>(rows, 16 * step + k, mn));
        }
      }
    }
  });
}

// dQ = dS K: each warpgroup multiplies with half of the columns of keys.
TEST(HopperMaps, HalfOfNinetySixColumnsBeginsWithAPanelOfSixteen) {
  constexpr int kKeys = 128;
  const Descriptor descriptor(mn_major_descriptor<32>(kKeys * 48 * 2, kKeys));
  for (int mn = 0; mn < 48; ++mn) {
    for (int k = 0; k < 16; ++k) ASSERT_EQ(descriptor.mn_major(mn, k), panel_byte<32>(kKeys, k, 48 + mn));
  }
}

TEST(HopperMaps, AnAdvancedDescriptorIsTheDescriptorOfTheLaterPlace) {
  for (uint32_t start = 0; start < 0x3000; start += 0x400) {
    for (int step = 0; step < 8; ++step) {
      EXPECT_EQ(
          advance_descriptor(matrix_descriptor(start, mn_major_leading(128), kRowGroupBytes), mn_major_offset(step)),
          matrix_descriptor(start + mn_major_offset(step), mn_major_leading(128), kRowGroupBytes));
      EXPECT_EQ(advance_descriptor(matrix_descriptor(start, 0, kRowGroupBytes), k_major_offset(128, step)),
                matrix_descriptor(start + k_major_offset(128, step), 0, kRowGroupBytes));
    }
  }
}

TEST(HopperMaps, ColumnsFurtherOnAreOneExclusiveOrAway) {
  for_each_tile([](auto row_bytes, int rows, int columns) {
    constexpr int kRowBytes = row_bytes();
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < 16; ++column) {
        for (int step = 0; step < columns / 16; ++step) {
          // The tile may lie anywhere that is a multiple of 1024.
          ASSERT_EQ(advance_columns<kRowBytes>(0x5400 + panel_byte<kRowBytes>(rows, row, column), rows, step),
                    0x5400 + panel_byte<kRowBytes>(rows, row, 16 * step + column));
        }
      }
    }
  });
}

// dS^T leaves registers as [keys][queries] and is read as the A operand [queries][keys].
TEST(HopperMaps, StoredScoreGradientsAreReadTransposed) {
  constexpr int kKeys = 128;
  constexpr int kQueries = 128;
  std::map<uint32_t, std::pair<int, int>> stored;  // byte -> (key, query)
  for (int warp = 0; warp < 8; ++warp) {
    for (int step = 0; step < kQueries / 16; ++step) {
      for (int matrix = 0; matrix < 4; ++matrix) {
        for (int row = 0; row < 8; ++row) {
          // Lane 8 matrix + row gives the address of this row; its elements are register `matrix` of lanes 4 row ..
          // + 3.
          const int lane = 8 * matrix + row;
          const uint32_t address = panel_byte(kKeys, 16 * warp + stmatrix_row(lane), 16 * step + stmatrix_column(lane));
          for (int owner = 4 * row; owner < 4 * row + 4; ++owner) {
            for (int half = 0; half < 2; ++half) {
              const int accumulator = 8 * step + 2 * matrix + half;
              const uint32_t byte = address + static_cast<uint32_t>(owner % 4 * 4 + half * 2);
              stored[byte] = {16 * warp + accumulator_row(0, owner, accumulator),
                              accumulator_column(owner, accumulator)};
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(stored.size(), static_cast<size_t>(kKeys * kQueries));
  for (int half = 0; half < 2; ++half) {
    for (int step = 0; step < kKeys / 16; ++step) {
      const uint32_t panel = static_cast<uint32_t>(half * kKeys * kPanelRowBytes);
      const Descriptor descriptor(matrix_descriptor(panel + mn_major_offset(step), 0, kRowGroupBytes));
      for (int query = 0; query < 64; ++query) {
        for (int key = 0; key < 16; ++key) {
          ASSERT_EQ(stored.at(descriptor.mn_major(query, key)), std::make_pair(16 * step + key, 64 * half + query));
        }
      }
    }
  }
}

TEST(HopperMaps, GradientFragmentsCoverTheirBlockOnce) {
  std::set<std::pair<int, int>> elements;
  for (int quad = 0; quad < 1024; ++quad) {
    const auto [row, column] = gradient_fragment(quad);
    for (const int down : {0, 8}) {
      for (const int right : {0, 1}) elements.insert({row + down, column + right});
    }
    for (int element = 0; element < 4; ++element) {
      const int thread = quad % 128;
      const int accumulator = quad / 128 * 4 + element;
      EXPECT_EQ(row + 8 * (element / 2), accumulator_row(thread / 32, thread % 32, accumulator));
      EXPECT_EQ(column + element % 2, accumulator_column(thread % 32, accumulator));
    }
  }
  EXPECT_EQ(elements.size(), 64u * 64u);
  EXPECT_EQ(*elements.rbegin(), std::make_pair(63, 63));
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
