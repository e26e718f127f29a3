// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include <array>

#include "core/error.h"
#include "meter/energy.h"
#include "model/weights.h"

namespace litespark {

void upload_batch(Executor& executor, const Batch& batch, int64_t micro_batch) {
  const BatchTensors& tensors = executor.program().batch_of(micro_batch);
  const auto part = [&](TensorId id, const std::vector<int32_t>& values) {
    const int64_t bytes = executor.program().tensors[id].bytes();
    const auto found = static_cast<int64_t>(values.size() * sizeof(int32_t));
    if (found != bytes) throw InternalError("batch", "does not have the program's shape", found, bytes);
    return Executor::HostTensor{.id = id, .data = values.data()};
  };
  executor.upload_batch(std::array{part(tensors.ids, batch.ids), part(tensors.labels, batch.labels),
                                   part(tensors.positions, batch.positions), part(tensors.offsets, batch.offsets),
                                   Executor::HostTensor{.id = tensors.num_documents, .data = &batch.num_documents}},
                        micro_batch);
}

std::optional<EvalResult> evaluate(Executor& executor, const BatchSource& source, int64_t batches,
                                   const std::function<bool()>& should_stop) {
  const double start = monotonic_seconds();
  const bool is_shared = executor.communicator() != nullptr;
  const ProgramOptions& options = executor.program().options;
  make_weights_whole(executor);
  const StepState saved = executor.read_state();
  executor.write_state({});
  Batch batch;
  bool is_stopped = false;
  for (int64_t index = options.data_rank; index < batches && !is_stopped; index += options.data_ranks) {
    batch.reset(options.batch);
    source.fill(static_cast<uint64_t>(index), batch);
    upload_batch(executor, batch);
    executor.run(Phase::kEval);
    is_stopped = !is_shared && should_stop();
  }
  if (is_shared) executor.run(Phase::kSumState);
  const StepState sums = executor.read_state();
  executor.write_state(saved);
  if (is_stopped) return std::nullopt;
  if (sums.bad_tokens > 0) {
    throw DataError("eval", "token ids outside the vocabulary", sums.bad_tokens,
                    "0; the tokenizer does not fit the model");
  }
  if (sums.supervised_tokens == 0) {
    throw DataError("eval", "no supervised token in the evaluation data", 0, "1 or more");
  }
  return EvalResult{.loss = sums.loss_sum / static_cast<double>(sums.supervised_tokens),
                    .supervised_tokens = sums.supervised_tokens,
                    .seconds = monotonic_seconds() - start};
}

EvalResult evaluate_all(Executor& executor, const BatchSource& source) {
  return *evaluate(executor, source, static_cast<int64_t>(source.batches_per_epoch()));
}

}  // namespace litespark
