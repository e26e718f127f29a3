// SPDX-License-Identifier: Apache-2.0
// The loss of a model on a source, token-weighted over all its batches.
#pragma once

#include <functional>
#include <optional>

#include "data/batch_source.h"
#include "model/executor.h"

namespace litespark {

struct EvalResult {
  double loss = 0;  ///< token-weighted mean
  int64_t supervised_tokens = 0;
  double seconds = 0;  ///< wall time that it took
};

/// Mean loss over `batches` micro-batches; the step state is as before afterwards. nullopt when `should_stop` said so
/// between two batches. Several ranks share the batches and sum; all call it, and none stops early. Throws DataError
/// when no token is supervised or an id lies outside the vocabulary.
std::optional<EvalResult> evaluate(
    Executor& executor, const BatchSource& source, int64_t batches,
    const std::function<bool()>& should_stop = [] { return false; });

/// One whole epoch.
EvalResult evaluate_all(Executor& executor, const BatchSource& source);

/// Copies a micro-batch to the device, beside the ops that still read the one before; where several are there at once,
/// to the place of the step's `micro_batch`-th. The batch may be reused at once.
void upload_batch(Executor& executor, const Batch& batch, int64_t micro_batch = 0);

}  // namespace litespark
