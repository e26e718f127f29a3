// SPDX-License-Identifier: Apache-2.0
#include "data/synthetic_source.h"

#include "core/rng.h"

namespace litespark {
namespace {
/// Keeps this use of the seed apart from weights and sample order.
constexpr uint64_t kSyntheticStream = 0x73796e7468;
}  // namespace

SyntheticSource::SyntheticSource(uint64_t seed, int64_t vocab_size, BatchShape shape)
    : seed_(seed), vocab_size_(vocab_size), shape_(shape) {}

void SyntheticSource::fill(uint64_t index, Batch& batch) const {
  const RandomStream random(seed_, kSyntheticStream);
  const auto length = static_cast<size_t>(shape_.max_length);
  std::vector<int32_t>& row = batch.row;
  row.resize(length + 1);
  const int64_t rows = shape_.num_tokens / shape_.max_length;
  const uint64_t first = index * static_cast<uint64_t>(rows) * row.size();
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < row.size(); ++i) {
      const uint64_t position = first + static_cast<uint64_t>(r) * row.size() + i;
      row[i] = static_cast<int32_t>(random.below(position, static_cast<uint64_t>(vocab_size_)));
    }
    batch.append_shifted(std::span(row).first(length), row[length]);
  }
}

std::string SyntheticSource::fingerprint() const {
  return "synthetic:" + std::to_string(seed_) + ":" + std::to_string(vocab_size_) + ":" +
         std::to_string(shape_.num_tokens) + ":" + std::to_string(shape_.max_length);
}

}  // namespace litespark
