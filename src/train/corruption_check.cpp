// SPDX-License-Identifier: Apache-2.0
#include "train/corruption_check.h"

#include <bit>
#include <string>

#include "core/error.h"

namespace litespark {
namespace {

/// Backward goes from the head down, so the last parameter that differs in table order is the first that went wrong.
std::string differences(const Program& program, const GradientFingerprint& first, const GradientFingerprint& second) {
  std::string text;
  if (std::bit_cast<int64_t>(first.loss_sum) != std::bit_cast<int64_t>(second.loss_sum)) {
    text += "the summed loss (" + std::to_string(first.loss_sum) + " and " + std::to_string(second.loss_sum) + "), ";
  }
  int64_t count = 0;
  std::string nearest;
  for (size_t p = 0; p < first.checksums.size(); ++p) {
    if (first.checksums[p] == second.checksums[p]) continue;
    ++count;
    nearest = program.params.params[p].name;
  }
  text += std::to_string(count) + " of " + std::to_string(first.checksums.size()) + " gradients";
  return count == 0 ? text : text + ", in the order of backward first that of " + nearest;
}

}  // namespace

bool GradientFingerprint::operator==(const GradientFingerprint& other) const {
  return std::bit_cast<int64_t>(loss_sum) == std::bit_cast<int64_t>(other.loss_sum) &&
         std::bit_cast<int64_t>(z_loss_sum) == std::bit_cast<int64_t>(other.z_loss_sum) &&
         supervised_tokens == other.supervised_tokens && bad_tokens == other.bad_tokens && checksums == other.checksums;
}

GradientFingerprint gradient_fingerprint(Executor& executor) {
  executor.run(Phase::kChecksum);
  const StepState state = executor.read_state();
  GradientFingerprint fingerprint{.loss_sum = state.loss_sum,
                                  .z_loss_sum = state.z_loss_sum,
                                  .supervised_tokens = state.supervised_tokens,
                                  .bad_tokens = state.bad_tokens};
  fingerprint.checksums.resize(executor.program().params.params.size());
  executor.read(executor.program().checksums, fingerprint.checksums.data(),
                static_cast<int64_t>(fingerprint.checksums.size() * sizeof(int64_t)));
  return fingerprint;
}

void check_first_micro_batch(Executor& executor, const StepState& inputs, int64_t step) {
  const GradientFingerprint first = gradient_fingerprint(executor);
  executor.begin_step(inputs);
  executor.run(Phase::kTrainFirst);
  const GradientFingerprint second = gradient_fingerprint(executor);
  if (first == second) return;
  throw DeviceError("device.verify_every", "step " + std::to_string(step) +
                                               ": its first micro-batch, run twice, gave other bits: " +
                                               differences(executor.program(), first, second) +
                                               " differ; the hardware computes wrong, or a kernel has a race. Nothing "
                                               "was updated; the last checkpoint is good as far as this check can see");
}

}  // namespace litespark
