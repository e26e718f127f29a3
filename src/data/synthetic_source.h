// SPDX-License-Identifier: Apache-2.0
// Fresh random tokens from the seed: for benchmarks and tests, never repeated.
#pragma once

#include "data/batch_source.h"

namespace litespark {

class SyntheticSource final : public BatchSource {
 public:
  SyntheticSource(uint64_t seed, int64_t vocab_size, BatchShape shape);

  void fill(uint64_t index, Batch& batch) const override;
  uint64_t batches_per_epoch() const override { return 0; }
  std::string fingerprint() const override;

 private:
  uint64_t seed_;
  int64_t vocab_size_;
  BatchShape shape_;
};

}  // namespace litespark
