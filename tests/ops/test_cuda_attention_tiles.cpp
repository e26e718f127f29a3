// SPDX-License-Identifier: Apache-2.0
// The tiles of the portable attention kernels: no visible pair is skipped, no invisible one goes unmasked, every row
// has one owner. Exhaustive over small lengths and windows, without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/cuda/heuristics/attention_early_band.h"

namespace litespark::cuda {
namespace {

const int kLengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 200, 257, 320};
const int kWindows[] = {0, 1, 2, 5, 63, 64, 65, 100, 128, 129, 400, INT_MAX};

/// The portable kernels' tile and that of the Hopper ones.
template <class Tile>
class AttentionTilesOf : public ::testing::Test {};
using TileSizes = ::testing::Types<std::integral_constant<int, 64>, std::integral_constant<int, 128>>;
TYPED_TEST_SUITE(AttentionTilesOf, TileSizes);

/// Whether some query of `query_tile` sees some key of `key_tile`, and whether all of them do.
struct Visibility {
  bool any = false;
  bool all = true;
};
template <int kTile, int kKeyTile>
Visibility visibility_of_rows(const CausalBandOf<kTile, kKeyTile>& band, int first_query, int rows, int key_tile) {
  Visibility result;
  for (int query = first_query; query < first_query + rows; ++query) {
    for (int key = key_tile * kKeyTile; key < (key_tile + 1) * kKeyTile; ++key) {
      const bool seen = band.sees(query, key);
      result.any |= seen;
      result.all &= seen;
    }
  }
  return result;
}
template <int kTile, int kKeyTile>
Visibility visibility(const CausalBandOf<kTile, kKeyTile>& band, int query_tile, int key_tile) {
  return visibility_of_rows(band, query_tile * kTile, kTile, key_tile);
}

TEST(AttentionTiles, SeesIsTheWindowOfTheContract) {
  const CausalBand band{.length = 10, .window = 3};
  EXPECT_TRUE(band.sees(5, 5));
  EXPECT_TRUE(band.sees(5, 3));
  EXPECT_FALSE(band.sees(5, 2));
  EXPECT_FALSE(band.sees(5, 6));
  EXPECT_FALSE(band.sees(10, 9));
}

TYPED_TEST(AttentionTilesOf, RangesHoldExactlyTheTilePairsWithAVisiblePair) {
  constexpr int kTile = TypeParam::value;
  for (const int length : kLengths) {
    for (const int window : kWindows) {
      const CausalBandOf<kTile> band{.length = length, .window = window};
      for (int query_tile = 0; query_tile < tiles_of<kTile>(length); ++query_tile) {
        for (int key_tile = 0; key_tile < tiles_of<kTile>(length); ++key_tile) {
          const bool any = visibility(band, query_tile, key_tile).any;
          const TileRange keys = band.key_tiles(query_tile);
          const TileRange queries = band.query_tiles(key_tile);
          ASSERT_EQ(key_tile >= keys.begin && key_tile < keys.end, any) << length << " " << window;
          ASSERT_EQ(query_tile >= queries.begin && query_tile < queries.end, any) << length << " " << window;
        }
      }
    }
  }
}

TYPED_TEST(AttentionTilesOf, ATileWithoutAMaskIsWhollyVisible) {
  constexpr int kTile = TypeParam::value;
  for (const int length : kLengths) {
    for (const int window : kWindows) {
      const CausalBandOf<kTile> band{.length = length, .window = window};
      for (int query_tile = 0; query_tile < tiles_of<kTile>(length); ++query_tile) {
        const TileRange keys = band.key_tiles(query_tile);
        for (int key_tile = keys.begin; key_tile < keys.end; ++key_tile) {
          ASSERT_EQ(band.needs_mask(query_tile, key_tile), !visibility(band, query_tile, key_tile).all)
              << length << " " << window << " tiles " << query_tile << " " << key_tile;
        }
      }
    }
  }
}

TEST(AttentionTiles, TilesOfQueriesAndOfKeysMayDifferInSize) {
  for (const int length : {1, 64, 65, 128, 192, 193, 257, 384, 385, 500}) {
    for (const int window : {0, 1, 64, 65, 129, 192, 200, INT_MAX}) {
      const CausalBandOf<192, 128> band{.length = length, .window = window};
      for (int query_tile = 0; query_tile < tiles_of<192>(length); ++query_tile) {
        for (int key_tile = 0; key_tile < tiles_of<128>(length); ++key_tile) {
          const Visibility seen = visibility(band, query_tile, key_tile);
          const TileRange keys = band.key_tiles(query_tile);
          const TileRange queries = band.query_tiles(key_tile);
          ASSERT_EQ(key_tile >= keys.begin && key_tile < keys.end, seen.any) << length << " " << window;
          ASSERT_EQ(query_tile >= queries.begin && query_tile < queries.end, seen.any) << length << " " << window;
          for (int query = query_tile * 192; query < (query_tile + 1) * 192; query += 64) {
            const Visibility part = visibility_of_rows(band, query, 64, key_tile);
            if (!part.any) continue;
            ASSERT_EQ(band.rows_need_mask(query, 64, key_tile), !part.all) << length << " " << window;
          }
        }
      }
    }
  }
}

TEST(AttentionTiles, ABandThatBeginsEarlyHidesTheRowsBefore) {
  for (const int length : {1, 64, 112, 113, 128, 129, 300}) {
    for (const int window : {0, 1, 70, 128, 200, INT_MAX - 16}) {
      for (const int early : {0, 1, 7, 15}) {
        const EarlyBandOf<128, 128> band{.band = {.length = length, .window = window}, .early = early};
        const auto sees = [&](int query, int key) {
          return query < length && key >= early && band.band.sees(query, key - early);
        };
        for (int query = 0; query < length; ++query) {
          for (int key = 0; key < length + 16; ++key) {
            ASSERT_EQ(sees(query, key), key >= band.first_key(query) && key <= band.last_key(query));
          }
        }
        for (int tile = 0; tile < tiles_of<128>(length); ++tile) {
          const TileRange keys = band.key_tiles_of(128 * tile);
          for (int key_tile = 0; key_tile < 4; ++key_tile) {
            bool any = false;
            for (int query = 128 * tile; query < 128 * (tile + 1); ++query) {
              for (int key = 128 * key_tile; key < 128 * (key_tile + 1); ++key) any |= sees(query, key);
            }
            ASSERT_EQ(key_tile >= keys.begin && key_tile < keys.end, any) << length << " " << window << " " << early;
          }
        }
        for (int query = 0; query < length; query += 64) {
          const TileRange unmasked = band.unmasked_tiles(query, 64);
          for (int key_tile = unmasked.begin; key_tile < unmasked.end; ++key_tile) {
            for (int row = query; row < query + 64 && row < length; ++row) {
              for (int key = 128 * key_tile; key < 128 * (key_tile + 1); ++key) {
                ASSERT_TRUE(sees(row, key)) << length << " " << window << " " << early << " row " << row;
              }
            }
          }
        }
      }
    }
  }
}

/// Every band that two chunks of a document can make, over tiles small enough to try all pairs.
template <class Body>
void for_each_small_band(const Body& body) {
  for (int length = 1; length <= 9; ++length) {
    for (int num_keys = 1; num_keys <= 9; ++num_keys) {
      for (const int gap : {0, 1, 2, 7}) {
        for (const int window : {0, 1, 3, 4, 9, 14, INT_MAX}) {
          body(CausalBandOf<4>{.length = length, .window = window, .num_keys = num_keys, .offset = num_keys + gap});
        }
      }
    }
  }
}

TEST(AttentionTiles, QueriesBehindAllKeysMeetExactlyTheTilesThatTheySee) {
  for_each_small_band([](const CausalBandOf<4>& band) {
    for (int query_tile = 0; query_tile < tiles_of<4>(band.length); ++query_tile) {
      for (int key_tile = 0; key_tile < tiles_of<4>(band.num_keys); ++key_tile) {
        const Visibility seen = visibility(band, query_tile, key_tile);
        const TileRange keys = band.key_tiles(query_tile);
        const TileRange queries = band.query_tiles(key_tile);
        ASSERT_EQ(key_tile >= keys.begin && key_tile < keys.end, seen.any);
        ASSERT_EQ(query_tile >= queries.begin && query_tile < queries.end, seen.any);
        ASSERT_EQ(band.needs_mask(query_tile, key_tile), !seen.all);
      }
    }
  });
}

TEST(AttentionTiles, AQuerysKeysAndAKeysQueriesAreOneRun) {
  for_each_small_band([](const CausalBandOf<4>& band) {
    for (int query = 0; query < band.length; ++query) {
      for (int key = 0; key < band.num_keys; ++key) {
        const bool sees = band.window == 0 || band.offset + query - key < band.window;
        ASSERT_EQ(band.sees(query, key), sees);
        ASSERT_EQ(query >= band.first_query(key) && query <= band.last_query(key), sees);
      }
    }
  });
}

/// Two rows of a micro-batch of which 2 R chunks are dealt out to R ranks.
struct ChunkedBatch {
  int ranks = 2;
  int chunk_length = 0;
  std::vector<int> offsets;
  int window = 0;

  RowChunk chunk(int rank, int half) const {
    const int index = half == 0 ? rank : 2 * ranks - 1 - rank;
    return {.first = index * chunk_length, .length = chunk_length, .row = half * chunk_length};
  }
  bool sees(int query, int key) const {
    for (size_t document = 0; document + 1 < offsets.size(); ++document) {
      if (query >= offsets[document + 1]) continue;
      return query >= offsets[document] && key >= offsets[document] && key <= query &&
             (window == 0 || query - key < window);
    }
    return false;
  }
};

/// Pairs of rows of the batch that the bands of two chunks show.
std::vector<std::pair<int, int>> shown_pairs(const ChunkedBatch& batch, const RowChunk& queries, const RowChunk& keys) {
  std::vector<std::pair<int, int>> pairs;
  for (size_t document = 0; document + 1 < batch.offsets.size(); ++document) {
    const int begin = batch.offsets[document];
    const int end = batch.offsets[document + 1];
    const ChunkRows own = rows_in_chunk(queries, begin, end);
    const ChunkRows other = rows_in_chunk(keys, begin, end);
    const CausalBandOf<4> band = band_of<4>(own, other, batch.window);
    for (int query = 0; query < own.length; ++query) {
      for (int key = 0; key < other.length; ++key) {
        EXPECT_EQ(own.begin + query - queries.row, own.first + query - queries.first);
        if (band.sees(query, key)) pairs.emplace_back(own.first + query, other.first + key);
      }
    }
  }
  return pairs;
}

TEST(AttentionTiles, ChunksOfAllRanksShowEveryVisiblePairOnce) {
  for (const int ranks : {1, 2, 3}) {
    for (const std::vector<int>& offsets : {std::vector<int>{0, 24}, {0, 3, 4, 17, 20}, {0, 8, 16}, {0}}) {
      for (const int window : {0, 1, 5, 12}) {
        const ChunkedBatch batch{
            .ranks = ranks, .chunk_length = 24 / (2 * ranks), .offsets = offsets, .window = window};
        std::map<std::pair<int, int>, int> shown;
        for (int part = 0; part < 4 * ranks * ranks; ++part) {
          const RowChunk queries = batch.chunk(part / 4 / ranks, part % 2);
          const RowChunk keys = batch.chunk(part / 4 % ranks, part / 2 % 2);
          if (keys.first > queries.first) continue;
          for (const auto& pair : shown_pairs(batch, queries, keys)) ++shown[pair];
        }
        for (int pair = 0; pair < 24 * 24; ++pair) {
          ASSERT_EQ((shown[{pair / 24, pair % 24}]), batch.sees(pair / 24, pair % 24) ? 1 : 0);
        }
      }
    }
  }
}

TEST(AttentionTiles, RowsOfARankStandInTheOrderOfTheBatch) {
  for (const int ranks : {1, 2, 3}) {
    const ChunkedBatch batch{.ranks = ranks, .chunk_length = 5, .offsets = {}};
    for (int rank = 0; rank < ranks; ++rank) {
      const RankRows rows{.early = batch.chunk(rank, 0), .late = batch.chunk(rank, 1)};
      int before = 0;
      for (int batch_row = 0; batch_row < 10 * ranks; ++batch_row) {
        ASSERT_EQ(rows.before(batch_row), before) << "rank " << rank << ", row " << batch_row;
        const int chunk = batch_row / 5;
        if (chunk != rank && chunk != 2 * ranks - 1 - rank) continue;
        ASSERT_EQ(rows.row_of_batch(before++), batch_row) << "rank " << rank;
      }
      EXPECT_EQ(before, 10);
      EXPECT_EQ(rows.before(INT_MAX), 10);
    }
  }
}

template <int kTile>
void expect_every_row_owned_once() {
  for (const int documents : {1, 3, 7}) {
    for (const int length : kLengths) {
      std::vector<int> owners(static_cast<size_t>(documents * length), 0);
      int previous_tile = INT_MAX;
      for (int slot = 0; slot < documents * tiles_of<kTile>(length); ++slot) {
        const DocumentTileOf<kTile> at = uniform_tile<kTile>(slot, documents, length);
        ASSERT_LE(at.tile, previous_tile) << "long tiles come first";
        previous_tile = at.tile;
        ASSERT_TRUE(at.first() >= 0 || kTile > 128) << "two warpgroups gain nothing";
        for (int row = std::max(at.first(), 0); row < at.first() + at.rows(); ++row) {
          ++owners.at(static_cast<size_t>(at.begin + row));
        }
      }
      for (const int count : owners) ASSERT_EQ(count, 1);
    }
  }
}

TYPED_TEST(AttentionTilesOf, UniformSlotsCoverEveryRowOnce) {
  expect_every_row_owned_once<TypeParam::value>();
}
TEST(AttentionTiles, UniformSlotsOfThreeWarpgroupsCoverEveryRowOnce) {
  expect_every_row_owned_once<192>();
}

TEST(AttentionTiles, EmptyWarpgroupsStandInFrontOfADocumentAndNotBehindIt) {
  for (int length = 1; length <= 1000; ++length) {
    const int lead = tile_lead<192>(length);
    ASSERT_EQ(lead % 64, 0) << "a warpgroup is before the document or in it";
    ASSERT_LT(lead, 192);
    ASSERT_EQ(tiles_of<192>(lead + length), tiles_of<192>(length)) << "no more tiles than without";
    ASSERT_LT(tiles_of<192>(length) * 192 - lead - length, 64) << "no whole warpgroup behind";
  }
  EXPECT_EQ(tile_lead<192>(1024), 128);
  EXPECT_EQ(tile_lead<128>(1024 + 64), 0);
}

TEST(AttentionTiles, QueriesBeforeTheDocumentSeeNoKeys) {
  for (const int window : {0, 65, 200}) {
    const CausalBandOf<192, 128> band{.length = 500, .window = window};
    for (int first = -191; first < 500; ++first) {
      const TileRange tiles = band.key_tiles_of(first);
      const TileRange expected = [&] {
        int begin = INT_MAX;
        int end = 0;
        for (int query = std::max(first, 0); query < std::min(first + 192, 500); ++query) {
          begin = std::min(begin, band.first_key(query) / 128);
          end = std::max(end, band.last_key(query) / 128 + 1);
        }
        return TileRange{.begin = begin, .end = end};
      }();
      ASSERT_EQ(tiles.begin, expected.begin) << first;
      ASSERT_EQ(tiles.end, expected.end) << first;
    }
  }
}

TEST(AttentionTiles, CapacityHoldsAnyPackingAndItsTail) {
  for (const std::vector<int>& lengths :
       {std::vector<int>{1, 1, 1, 1}, {65, 65, 65}, {64, 64}, {63}, {}, {200, 1, 129}}) {
    for (const int tail : {0, 1, 64, 65}) {
      int tokens = tail;
      int tiles = tiles_of(tail);
      for (const int length : lengths) {
        tokens += length;
        tiles += tiles_of(length);
      }
      EXPECT_LE(tiles, tile_capacity(tokens, static_cast<int64_t>(lengths.size())));
    }
  }
}

TEST(AttentionTiles, ASlotPastTheEndHasNoRows) {
  const DocumentTile at{.document = -1, .tile = 3, .begin = 10, .length = 100};
  EXPECT_EQ(at.rows(), 0);
  const DocumentTile last{.document = 0, .tile = 1, .begin = 0, .length = 100};
  EXPECT_EQ(last.rows(), 36);
}

}  // namespace
}  // namespace litespark::cuda
