// SPDX-License-Identifier: Apache-2.0
#include "data/batch.h"

#include <algorithm>

#include "core/error.h"

namespace litespark {

void Batch::reset(const BatchShape& shape) {
  const auto tokens = static_cast<size_t>(shape.num_tokens);
  ids.assign(tokens, 0);
  labels.assign(tokens, op::kIgnoredLabel);
  positions.assign(tokens, 0);
  offsets.assign(static_cast<size_t>(shape.max_documents) + 1, 0);
  num_documents = 0;
}

void Batch::append(std::span<const int32_t> document_ids, std::span<const int32_t> document_labels) {
  const auto first = static_cast<size_t>(tokens_used());
  const size_t count = document_ids.size();
  if (document_labels.size() != count) {
    throw InternalError("batch", "one label a token", document_labels.size(), count);
  }
  if (first + count > ids.size() || static_cast<size_t>(num_documents) + 1 >= offsets.size()) {
    throw InternalError("batch", "document does not fit", first + count, ids.size());
  }
  std::copy(document_ids.begin(), document_ids.end(), ids.begin() + static_cast<std::ptrdiff_t>(first));
  std::copy(document_labels.begin(), document_labels.end(), labels.begin() + static_cast<std::ptrdiff_t>(first));
  for (size_t i = 0; i < count; ++i) positions[first + i] = static_cast<int32_t>(i);
  ++num_documents;
  std::fill(offsets.begin() + num_documents, offsets.end(), static_cast<int32_t>(first + count));
}

void Batch::append_shifted(std::span<const int32_t> document_ids, int32_t next) {
  const auto first = static_cast<size_t>(tokens_used());
  append(document_ids, document_ids);
  for (size_t i = 0; i + 1 < document_ids.size(); ++i) labels[first + i] = document_ids[i + 1];
  if (!document_ids.empty()) labels[first + document_ids.size() - 1] = next;
}

int64_t Batch::supervised_tokens() const {
  return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label != op::kIgnoredLabel; });
}

int64_t Batch::held_bytes() const {
  const size_t entries =
      ids.capacity() + labels.capacity() + positions.capacity() + offsets.capacity() + row.capacity();
  return static_cast<int64_t>(entries * sizeof(int32_t));
}

}  // namespace litespark
