// SPDX-License-Identifier: Apache-2.0
// Looks for hardware that computes wrong without saying so: the first micro-batch of a step is run twice and loss and
// gradients must be the same bits, since the run is deterministic. Finds what goes wrong in one run and not in the
// other; what is wrong both times (a flipped bit in a weight, a defect that always gives the same result) looks right.
#pragma once

#include <cstdint>
#include <vector>

#include "model/executor.h"

namespace litespark {

/// What a micro-batch left behind, small enough to be compared on the host.
struct GradientFingerprint {
  double loss_sum = 0;
  double z_loss_sum = 0;
  int64_t supervised_tokens = 0;
  int64_t bad_tokens = 0;
  std::vector<int64_t> checksums;  ///< one a parameter's gradient, in table order

  /// Bits, so that NaN equals itself.
  bool operator==(const GradientFingerprint& other) const;
};

/// Runs kChecksum and waits for it.
GradientFingerprint gradient_fingerprint(Executor& executor);

/// Runs kTrainFirst a second time over the micro-batch that the device still holds, on `inputs` as the first time.
/// Throws DeviceError naming `step` and the tensors whose bits differ; the gradients are those of the second run.
void check_first_micro_batch(Executor& executor, const StepState& inputs, int64_t step);

}  // namespace litespark
