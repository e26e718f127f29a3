// SPDX-License-Identifier: Apache-2.0
// Which pieces of which documents make micro-batch i. A pure function of (documents, seed, epoch): every token of an
// epoch is trained exactly once, whoever asks for the batches and in whatever order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "spec/program.h"

namespace litespark {

/// Tokens [first, first + count) of one document; `label_follows` says that the token after them belongs to the same
/// document and is the label of the last one.
struct Piece {
  int64_t first = 0;
  int32_t count = 0;
  bool label_follows = false;

  bool operator==(const Piece&) const = default;
};

/// Cuts a document of tokens [begin, end) into pieces of at most `max_length`; all but the last have a label following.
/// A single token at the end of a document has nothing to predict, but joins the pieces so that none is lost.
std::vector<Piece> cut_document(int64_t begin, int64_t end, int64_t max_length);

/// One epoch's micro-batches.
class PackedEpoch {
 public:
  struct Documents {
    int64_t count = 0;
    std::function<int64_t(int64_t)> begin;  ///< first token of a document
    std::function<int64_t(int64_t)> end;
  };

  /// Walks the documents in the epoch's random order and fills batches; a piece that does not fit waits for the next
  /// batch, up to a few of them, so that little is left empty.
  /// Without an epoch the order is the documents' own, the same every time.
  PackedEpoch(const Documents& documents, const BatchShape& shape, uint64_t seed, std::optional<uint64_t> epoch);

  int64_t num_batches() const { return static_cast<int64_t>(starts_.size()) - 1; }
  /// Pieces of batch `index`, in order.
  std::vector<Piece> batch(int64_t index) const;
  /// The same into `pieces`, which need not grow when it has the room.
  void list_batch(int64_t index, std::vector<Piece>& pieces) const;
  int64_t num_pieces() const { return static_cast<int64_t>(pieces_.size()); }

 private:
  std::vector<Piece> pieces_;    ///< in batch order
  std::vector<int64_t> starts_;  ///< first piece of each batch; one more entry at the end
};

}  // namespace litespark
