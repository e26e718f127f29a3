// SPDX-License-Identifier: Apache-2.0
// Micro-batches from shards: whole documents packed without seeing each other, or one stream cut into equal windows.
#pragma once

#include <memory>
#include <mutex>

#include "data/batch_source.h"
#include "data/packing.h"
#include "data/shard_set.h"

namespace litespark {

enum class PackingMode : uint8_t {
  kDocuments,  ///< attention and positions stay inside a document
  kStream,     ///< windows of max_length over all tokens, document ends ignored
};

class ShardSource final : public BatchSource {
 public:
  struct Options {
    BatchShape shape;
    PackingMode mode = PackingMode::kDocuments;
    uint64_t seed = 0;
    bool is_shuffled = true;        ///< false: file order, for evaluation
    const char* key = "data.path";  ///< the setting that errors name
  };

  ShardSource(ShardSet shards, Options options);

  void fill(uint64_t index, Batch& batch) const override;
  /// Of the first epoch; packed epochs differ by a few.
  uint64_t batches_per_epoch() const override;
  std::string fingerprint() const override;
  /// The pieces of micro-batch `index`: what the exactly-once ledger records.
  std::vector<Piece> pieces(uint64_t index) const;

  const ShardSet& shards() const { return shards_; }

 private:
  /// The epoch that holds global batch `index`, and the batch's place in it.
  std::pair<std::shared_ptr<const PackedEpoch>, int64_t> locate(uint64_t index) const;
  std::shared_ptr<const PackedEpoch> make_epoch(uint64_t epoch) const;
  void list_pieces(uint64_t index, std::vector<Piece>& pieces) const;
  void list_stream_pieces(uint64_t index, std::vector<Piece>& pieces) const;

  ShardSet shards_;
  Options options_;

  mutable std::mutex mutex_;
  mutable std::vector<uint64_t> epoch_starts_ = {0};  ///< first global batch of each epoch known so far
  mutable std::shared_ptr<const PackedEpoch> epoch_;  ///< the one used last
  mutable uint64_t epoch_number_ = 0;
};

}  // namespace litespark
