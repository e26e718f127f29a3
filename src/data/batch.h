// SPDX-License-Identifier: Apache-2.0
// One micro-batch on the host: tokens of documents laid end to end, with the labels already shifted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/program.h"

namespace litespark {

struct Batch {
  std::vector<int32_t> ids;        ///< [N]
  std::vector<int32_t> labels;     ///< [N]; op::kIgnoredLabel where nothing is scored
  std::vector<int32_t> positions;  ///< [N], restarting in every document
  std::vector<int32_t> offsets;    ///< [max_documents + 1]; entries past the last document repeat its end
  int32_t num_documents = 0;
  std::vector<int32_t> row;  ///< a document's tokens on their way in, for sources; keeps its memory

  /// Empties the batch and sizes it for `shape`; every row ignored, no document.
  void reset(const BatchShape& shape);
  /// Appends a document: `labels[i]` is what position i must predict. Throws InternalError when it does not fit.
  void append(std::span<const int32_t> document_ids, std::span<const int32_t> document_labels);
  /// The same, with labels = ids shifted by one; `next` is the label of the last token (kIgnoredLabel: none).
  void append_shifted(std::span<const int32_t> document_ids, int32_t next);

  int64_t tokens_used() const { return offsets.empty() ? 0 : offsets[static_cast<size_t>(num_documents)]; }
  int64_t supervised_tokens() const;
  /// Of host memory, kept for later batches included.
  int64_t held_bytes() const;
};

}  // namespace litespark
