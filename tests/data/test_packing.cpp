// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "core/rng.h"
#include "data/packing.h"

namespace litespark {
namespace {

/// Documents of pseudo-random lengths, some far longer than a sequence.
struct Corpus {
  std::vector<int64_t> ends;
  explicit Corpus(int count, uint64_t seed = 1) {
    const RandomStream random(seed, 8);
    int64_t end = 0;
    for (int i = 0; i < count; ++i) {
      const uint64_t kind = random.below(static_cast<uint64_t>(2 * i), 10);
      end += 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(2 * i + 1), kind == 0 ? 300 : 40));
      ends.push_back(end);
    }
  }
  PackedEpoch::Documents documents() const {
    return {.count = static_cast<int64_t>(ends.size()),
            .begin = [this](int64_t d) { return d == 0 ? 0 : ends[static_cast<size_t>(d - 1)]; },
            .end = [this](int64_t d) { return ends[static_cast<size_t>(d)]; }};
  }
};

constexpr BatchShape kShape{.num_tokens = 256, .max_documents = 32, .max_length = 64};

TEST(CutDocument, LosesNoTokenAndKeepsLabelsInsideTheDocument) {  // report:B17
  for (int64_t length = 1; length < 40; ++length) {
    const std::vector<Piece> pieces = cut_document(100, 100 + length, 7);
    int64_t at = 100;
    for (const Piece& piece : pieces) {
      EXPECT_EQ(piece.first, at);
      EXPECT_LE(piece.count, 7);
      at += piece.count;
      EXPECT_EQ(piece.label_follows, at < 100 + length);
    }
    EXPECT_EQ(at, 100 + length);
  }
}

TEST(PackedEpoch, TrainsEveryTokenExactlyOnce) {  // fault:D17
  const Corpus corpus(500);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const PackedEpoch packed(corpus.documents(), kShape, 7, epoch);
    std::map<int64_t, int> seen;
    for (int64_t index = 0; index < packed.num_batches(); ++index) {
      int64_t tokens = 0;
      const std::vector<Piece> pieces = packed.batch(index);
      EXPECT_FALSE(pieces.empty());
      EXPECT_LE(pieces.size(), static_cast<size_t>(kShape.max_documents));
      for (const Piece& piece : pieces) {
        tokens += piece.count;
        EXPECT_LE(piece.count, kShape.max_length);
        for (int64_t i = 0; i < piece.count; ++i) ++seen[piece.first + i];
      }
      EXPECT_LE(tokens, kShape.num_tokens);
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(corpus.ends.back()));
    for (const auto& [token, count] : seen) ASSERT_EQ(count, 1) << token;
  }
}

TEST(PackedEpoch, LeavesLittleOfABatchEmpty) {
  const Corpus corpus(5000);
  const PackedEpoch packed(corpus.documents(), kShape, 7, 0);
  const double capacity = static_cast<double>(packed.num_batches() * kShape.num_tokens);
  EXPECT_GT(static_cast<double>(corpus.ends.back()) / capacity, 0.97);
}

TEST(PackedEpoch, IsTheSameForTheSameSeedAndAnotherForAnotherEpoch) {
  const Corpus corpus(200);
  const PackedEpoch a(corpus.documents(), kShape, 7, 2), b(corpus.documents(), kShape, 7, 2);
  const PackedEpoch other(corpus.documents(), kShape, 7, 3), unshuffled(corpus.documents(), kShape, 7, std::nullopt);
  ASSERT_EQ(a.num_batches(), b.num_batches());
  for (int64_t index = 0; index < a.num_batches(); ++index) EXPECT_EQ(a.batch(index), b.batch(index));
  EXPECT_NE(a.batch(0), other.batch(0));
  EXPECT_EQ(unshuffled.batch(0).front().first, 0);
}

TEST(PackedEpoch, HandlesOneSingleDocument) {  // fault:D16
  const Corpus corpus(1);
  const PackedEpoch packed(corpus.documents(), kShape, 1, 0);
  EXPECT_GE(packed.num_batches(), 1);
}

}  // namespace
}  // namespace litespark
