// SPDX-License-Identifier: Apache-2.0
// Bytes of a text as tokens (vocabulary 256), cut into windows of equal length, shuffled anew in every epoch.
#pragma once

#include <vector>

#include "data/batch_source.h"

namespace litespark {

class TextSource final : public BatchSource {
 public:
  /// `bytes` is the text; throws DataError when it is shorter than one window and its label.
  /// `key`: the setting that errors name. Throws DataError for a text without one whole sequence.
  TextSource(std::string bytes, uint64_t seed, BatchShape shape, const char* key = "data.path");

  void fill(uint64_t index, Batch& batch) const override;
  uint64_t batches_per_epoch() const override;
  std::string fingerprint() const override;

 private:
  uint64_t num_windows() const;

  std::string bytes_;
  uint64_t seed_;
  BatchShape shape_;
};

}  // namespace litespark
