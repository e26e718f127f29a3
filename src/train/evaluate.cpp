// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include <array>
#include <span>

#include "core/error.h"
#include "meter/energy.h"
#include "model/weights.h"

namespace litespark {

void upload_batch(Executor& executor, const Batch& batch, int64_t micro_batch) {
  const BatchTensors& tensors = executor.program().batch_of(micro_batch);
  const ProgramOptions& options = executor.program().options;
  std::array<Executor::HostTensor, 8> parts;
  size_t num_parts = 0;
  const auto add = [&](const Executor::HostTensor& part) { parts[num_parts++] = part; };
  const auto require_size = [](const std::vector<int32_t>& values, int64_t expected) {
    if (std::ssize(values) == expected) return;
    throw InternalError("batch", "does not have the program's shape", values.size(), expected);
  };
  const auto add_rows = [&](TensorId id, const std::vector<int32_t>& values) {
    require_size(values, options.batch.num_tokens);
    if (options.context_ranks == 1) return add({.id = id, .data = values.data()});
    const int64_t length = options.rank_tokens() / 2;
    const auto bytes = length * static_cast<int64_t>(sizeof(int32_t));
    for (int half = 0; half < 2; ++half) {
      const int64_t chunk = op::context_chunk(options.context_ranks, options.context_rank(), half);
      add({.id = id, .data = values.data() + chunk * length, .first_byte = half * bytes, .bytes = bytes});
    }
  };
  add_rows(tensors.ids, batch.ids);
  add_rows(tensors.labels, batch.labels);
  add_rows(tensors.positions, batch.positions);
  require_size(batch.offsets, options.batch.max_documents + 1);
  add({.id = tensors.offsets, .data = batch.offsets.data()});
  add({.id = tensors.num_documents, .data = &batch.num_documents});
  executor.upload_batch(std::span(parts).first(num_parts), micro_batch);
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
  for (int64_t index = options.replica(); index < batches && !is_stopped; index += options.replicas()) {
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
