// SPDX-License-Identifier: Apache-2.0
// Where micro-batches come from. A source is a pure function of an index: micro-batch i of a run is the same whoever
// asks, in whatever order, before or after a resume.
#pragma once

#include <cstdint>
#include <string>

#include "data/batch.h"

namespace litespark {

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// Fills `batch` (already reset to the run's shape) with micro-batch `index`. Thread-safe.
  virtual void fill(uint64_t index, Batch& batch) const = 0;
  /// Micro-batches after which every sample was seen once; 0: without end.
  virtual uint64_t batches_per_epoch() const = 0;
  /// What a checkpoint stores to recognise the data again.
  virtual std::string fingerprint() const = 0;
};

}  // namespace litespark
