// SPDX-License-Identifier: Apache-2.0
#include "train/flip_trials.h"

#include <cstring>

#include "core/error.h"
#include "core/rng.h"
#include "support/faulty_backend.h"
#include "train/corruption_check.h"
#include "train/evaluate.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

/// Loss, counts and gradients of a micro-batch as bytes.
std::vector<std::byte> everything(const Executor& executor) {
  const StepState state = executor.read_state();
  const TensorId gradient = executor.program().flat.gradient;
  const int64_t gradient_bytes = executor.program().tensors[gradient].bytes();
  std::vector<std::byte> bytes(static_cast<size_t>(kStepInputBytes + gradient_bytes));
  std::memcpy(bytes.data(), &state, static_cast<size_t>(kStepInputBytes));
  executor.read(gradient, bytes.data() + kStepInputBytes, gradient_bytes);
  return bytes;
}

}  // namespace

FlipCounts run_flip_trials(DType compute, int64_t trials, uint64_t seed) {
  ProgramOptions options = tiny_program_options();
  options.compute = compute;
  options.residual = compute;
  options.has_checksums = true;
  auto* const faulty = new test::FaultyBackend(make_cpu_backend({.threads = 1}));
  TinyRun run(tiny_model(), options, {random_batch(options.batch, {20, 7, 32}, 96, 1)}, tiny_trainer_options(),
              std::unique_ptr<Backend>(faulty));
  const auto counts = [](const std::string& op) { return op != "checksum"; };
  const int64_t num_ops = std::ssize(run.executor.program().tape(Phase::kTrainFirst)->entries());
  const StepState inputs{.learning_rate = 1e-3f};
  upload_batch(run.executor, run.batches[0]);
  run.executor.begin_step(inputs);
  run.executor.run(Phase::kTrainFirst);
  const std::vector<std::byte> right = everything(run.executor);

  const RandomStream random(seed, 0);
  FlipCounts result;
  for (int64_t trial = 0; trial < trials; ++trial) {
    const auto draw = static_cast<uint64_t>(2 * trial);
    const auto at = static_cast<int64_t>(random.below(draw, static_cast<uint64_t>(2 * num_ops)));
    faulty->set_faults({.flip_bit_at = at, .flip_seed = random.bits(draw + 1), .counts = counts});
    run.executor.begin_step(inputs);
    run.executor.run(Phase::kTrainFirst);
    bool is_effective = at < num_ops && everything(run.executor) != right;
    bool is_detected = false;
    try {
      check_first_micro_batch(run.executor, inputs, trial);
    } catch (const DeviceError&) {
      is_detected = true;
    }
    is_effective = is_effective || (at >= num_ops && everything(run.executor) != right);
    result.planted += faulty->planted();
    result.effective += is_effective ? 1 : 0;
    result.detected += is_detected ? 1 : 0;
    result.missed += is_effective && !is_detected ? 1 : 0;
    result.false_alarms += is_detected && !is_effective ? 1 : 0;
  }
  return result;
}

}  // namespace litespark
