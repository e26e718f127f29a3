// SPDX-License-Identifier: Apache-2.0
#include "data/packing.h"

#include <algorithm>
#include <deque>

#include "core/permutation.h"

namespace litespark {
namespace {

/// Pieces that may wait for a batch with more room. More would fill a little better and take longer.
constexpr size_t kMaxWaiting = 64;
/// Keeps this use of the seed apart from weights and synthetic tokens.
constexpr uint64_t kOrderStream = uint64_t{1} << 32;

/// Fills one batch after the other: waiting pieces first, in their order, then new ones.
class BatchFiller {
 public:
  BatchFiller(const BatchShape& shape, std::vector<Piece>& pieces, std::vector<int64_t>& starts)
      : shape_(shape), pieces_(pieces), starts_(starts) {
    starts_.push_back(0);
  }

  void add(const Piece& piece) {
    if (fits(piece)) {
      place(piece);
      return;
    }
    waiting_.push_back(piece);
    if (waiting_.size() > kMaxWaiting) close_batch();
  }

  void finish() {
    while (!waiting_.empty()) close_batch();
    if (tokens_ > 0) starts_.push_back(static_cast<int64_t>(pieces_.size()));
  }

 private:
  bool fits(const Piece& piece) const {
    return tokens_ + piece.count <= shape_.num_tokens && documents_ < shape_.max_documents;
  }
  void place(const Piece& piece) {
    pieces_.push_back(piece);
    tokens_ += piece.count;
    ++documents_;
  }
  /// Ends the batch and starts the next with the pieces that waited.
  void close_batch() {
    starts_.push_back(static_cast<int64_t>(pieces_.size()));
    tokens_ = 0;
    documents_ = 0;
    std::deque<Piece> still_waiting;
    for (const Piece& piece : waiting_) {
      if (fits(piece)) {
        place(piece);
      } else {
        still_waiting.push_back(piece);
      }
    }
    waiting_ = std::move(still_waiting);
  }

  const BatchShape& shape_;
  std::vector<Piece>& pieces_;
  std::vector<int64_t>& starts_;
  std::deque<Piece> waiting_;
  int64_t tokens_ = 0;
  int64_t documents_ = 0;
};

}  // namespace

std::vector<Piece> cut_document(int64_t begin, int64_t end, int64_t max_length) {
  std::vector<Piece> pieces;
  for (int64_t first = begin; first < end; first += max_length) {
    const int64_t count = std::min(max_length, end - first);
    pieces.push_back({.first = first, .count = static_cast<int32_t>(count), .label_follows = first + count < end});
  }
  return pieces;
}

PackedEpoch::PackedEpoch(const Documents& documents, const BatchShape& shape, uint64_t seed,
                         std::optional<uint64_t> epoch) {
  BatchFiller filler(shape, pieces_, starts_);
  const Permutation order(static_cast<uint64_t>(documents.count), seed, kOrderStream + epoch.value_or(0));
  for (int64_t i = 0; i < documents.count; ++i) {
    const int64_t document = epoch ? static_cast<int64_t>(order(static_cast<uint64_t>(i))) : i;
    for (const Piece& piece : cut_document(documents.begin(document), documents.end(document), shape.max_length)) {
      filler.add(piece);
    }
  }
  filler.finish();
}

std::vector<Piece> PackedEpoch::batch(int64_t index) const {
  std::vector<Piece> pieces;
  list_batch(index, pieces);
  return pieces;
}

void PackedEpoch::list_batch(int64_t index, std::vector<Piece>& pieces) const {
  const auto begin = pieces_.begin() + starts_[static_cast<size_t>(index)];
  const auto end = pieces_.begin() + starts_[static_cast<size_t>(index) + 1];
  pieces.assign(begin, end);
}

}  // namespace litespark
