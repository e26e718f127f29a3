// SPDX-License-Identifier: Apache-2.0
#include "data/text_source.h"

#include "core/error.h"
#include "core/permutation.h"

namespace litespark {
namespace {

/// FNV-1a: tells texts apart in a fingerprint; no protection against intent.
uint64_t hash_bytes(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace

TextSource::TextSource(std::string bytes, uint64_t seed, BatchShape shape, const char* key)
    : bytes_(std::move(bytes)), seed_(seed), shape_(shape) {
  if (num_windows() == 0) {
    throw DataError(key, "text is shorter than one sequence and its last label", bytes_.size(),
                    std::to_string(shape_.max_length + 1) + " bytes or more");
  }
}

uint64_t TextSource::num_windows() const {
  return bytes_.empty() ? 0 : (bytes_.size() - 1) / static_cast<uint64_t>(shape_.max_length);
}

uint64_t TextSource::batches_per_epoch() const {
  const auto rows = static_cast<uint64_t>(shape_.num_tokens / shape_.max_length);
  return (num_windows() + rows - 1) / rows;
}

void TextSource::fill(uint64_t index, Batch& batch) const {
  const auto length = static_cast<size_t>(shape_.max_length);
  const auto rows = static_cast<uint64_t>(shape_.num_tokens / shape_.max_length);
  std::vector<int32_t>& window = batch.row;
  window.resize(length + 1);
  for (uint64_t r = 0; r < rows; ++r) {
    const uint64_t sample = index * rows + r;
    const Permutation order(num_windows(), seed_, sample / num_windows());
    const size_t begin = static_cast<size_t>(order(sample % num_windows())) * length;
    for (size_t i = 0; i < window.size(); ++i) window[i] = static_cast<uint8_t>(bytes_[begin + i]);
    batch.append_shifted(std::span(window).first(length), window[length]);
  }
}

std::string TextSource::fingerprint() const {
  return "text:" + std::to_string(bytes_.size()) + ":" + std::to_string(hash_bytes(bytes_)) + ":" +
         std::to_string(seed_) + ":" + std::to_string(shape_.num_tokens) + ":" + std::to_string(shape_.max_length);
}

}  // namespace litespark
