// SPDX-License-Identifier: Apache-2.0
// The share of one of several ranks in a source: every R-th micro-batch, so that all ranks together see the run of one,
// in its order.
#pragma once

#include "data/batch_source.h"

namespace litespark {

class RankedSource final : public BatchSource {
 public:
  /// `source` outlives this.
  RankedSource(const BatchSource& source, uint64_t ranks, uint64_t rank)
      : source_(source), ranks_(ranks), rank_(rank) {}

  /// Micro-batch index * R + rank of the source.
  void fill(uint64_t index, Batch& batch) const override { source_.fill(index * ranks_ + rank_, batch); }
  /// Of this rank; the last ones of an epoch may begin the next.
  uint64_t batches_per_epoch() const override { return (source_.batches_per_epoch() + ranks_ - 1) / ranks_; }
  std::string fingerprint() const override { return source_.fingerprint(); }

 private:
  const BatchSource& source_;
  uint64_t ranks_;
  uint64_t rank_;
};

}  // namespace litespark
