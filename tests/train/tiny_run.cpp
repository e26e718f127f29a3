// SPDX-License-Identifier: Apache-2.0
#include "train/tiny_run.h"

#include "core/rng.h"

namespace litespark {

Batch random_batch(const BatchShape& shape, const std::vector<int64_t>& lengths, int64_t vocab_size, uint64_t seed) {
  const RandomStream random(seed, 99);
  Batch batch;
  batch.reset(shape);
  uint64_t draw = 0;
  for (const int64_t length : lengths) {
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) id = static_cast<int32_t>(random.below(draw++, static_cast<uint64_t>(vocab_size)));
    batch.append_shifted(ids, op::kIgnoredLabel);
  }
  return batch;
}

}  // namespace litespark
