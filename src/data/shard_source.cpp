// SPDX-License-Identifier: Apache-2.0
#include "data/shard_source.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/permutation.h"

namespace litespark {

ShardSource::ShardSource(ShardSet shards, Options options) : shards_(std::move(shards)), options_(options) {
  if (options_.mode == PackingMode::kStream && shards_.num_tokens() <= options_.shape.max_length) {
    throw DataError(options_.key, "holds fewer tokens than one sequence and its last label", shards_.num_tokens(),
                    std::to_string(options_.shape.max_length + 1) + " or more");
  }
  if (options_.mode == PackingMode::kDocuments && shards_.num_tokens() == shards_.num_documents()) {
    throw DataError(options_.key, "holds no document of two tokens, so there is nothing to predict",
                    std::to_string(shards_.num_documents()) + " documents of one token",
                    "a document of two tokens or more");
  }
}

std::shared_ptr<const PackedEpoch> ShardSource::make_epoch(uint64_t epoch) const {
  PackedEpoch::Documents documents{.count = shards_.num_documents(),
                                   .begin = [this](int64_t d) { return shards_.document_begin(d); },
                                   .end = [this](int64_t d) { return shards_.document_end(d); }};
  return std::make_shared<const PackedEpoch>(documents, options_.shape, options_.seed,
                                             options_.is_shuffled ? std::optional(epoch) : std::nullopt);
}

std::pair<std::shared_ptr<const PackedEpoch>, int64_t> ShardSource::locate(uint64_t index) const {
  const std::lock_guard lock(mutex_);
  uint64_t epoch = static_cast<uint64_t>(std::upper_bound(epoch_starts_.begin(), epoch_starts_.end(), index) -
                                         epoch_starts_.begin() - 1);
  while (true) {
    if (!epoch_ || epoch_number_ != epoch) {
      epoch_ = make_epoch(epoch);
      epoch_number_ = epoch;
    }
    const auto batches = static_cast<uint64_t>(epoch_->num_batches());
    if (epoch + 1 == epoch_starts_.size()) epoch_starts_.push_back(epoch_starts_[epoch] + batches);
    if (index < epoch_starts_[epoch + 1]) return {epoch_, static_cast<int64_t>(index - epoch_starts_[epoch])};
    ++epoch;
  }
}

void ShardSource::list_stream_pieces(uint64_t index, std::vector<Piece>& pieces) const {
  const auto length = static_cast<uint64_t>(options_.shape.max_length);
  const uint64_t windows = (static_cast<uint64_t>(shards_.num_tokens()) - 1) / length;
  const auto rows = static_cast<uint64_t>(options_.shape.num_tokens) / length;
  pieces.clear();
  for (uint64_t r = 0; r < rows; ++r) {
    const uint64_t sample = index * rows + r;
    const uint64_t place = sample % windows;
    const uint64_t window = options_.is_shuffled ? Permutation(windows, options_.seed, sample / windows)(place) : place;
    pieces.push_back(
        {.first = static_cast<int64_t>(window * length), .count = static_cast<int32_t>(length), .label_follows = true});
  }
}

void ShardSource::list_pieces(uint64_t index, std::vector<Piece>& pieces) const {
  if (options_.mode == PackingMode::kStream) return list_stream_pieces(index, pieces);
  const auto [epoch, place] = locate(index);
  epoch->list_batch(place, pieces);
}

std::vector<Piece> ShardSource::pieces(uint64_t index) const {
  std::vector<Piece> pieces;
  list_pieces(index, pieces);
  return pieces;
}

void ShardSource::fill(uint64_t index, Batch& batch) const {
  // Worker threads fill batches beside each other; each keeps its list's memory.
  thread_local std::vector<Piece> pieces;
  list_pieces(index, pieces);
  std::vector<int32_t>& tokens = batch.row;
  for (const Piece& piece : pieces) {
    tokens.resize(static_cast<size_t>(piece.count) + (piece.label_follows ? 1 : 0));
    shards_.read(piece.first, tokens);
    const int32_t next = piece.label_follows ? tokens.back() : op::kIgnoredLabel;
    batch.append_shifted(std::span(tokens).first(static_cast<size_t>(piece.count)), next);
  }
}

uint64_t ShardSource::batches_per_epoch() const {
  if (options_.mode == PackingMode::kStream) {
    const auto rows = static_cast<uint64_t>(options_.shape.num_tokens / options_.shape.max_length);
    const uint64_t windows =
        (static_cast<uint64_t>(shards_.num_tokens()) - 1) / static_cast<uint64_t>(options_.shape.max_length);
    return (windows + rows - 1) / rows;
  }
  locate(0);
  const std::lock_guard lock(mutex_);
  return epoch_starts_.at(1);
}

std::string ShardSource::fingerprint() const {
  return shards_.fingerprint() + ":" + (options_.mode == PackingMode::kStream ? "stream" : "documents") + ":" +
         std::to_string(options_.seed) + ":" + std::to_string(options_.shape.num_tokens) + ":" +
         std::to_string(options_.shape.max_length) + ":" + std::to_string(options_.shape.max_documents);
}

}  // namespace litespark
