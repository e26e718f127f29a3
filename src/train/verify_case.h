// SPDX-License-Identifier: Apache-2.0
// `litespark verify`: runs a reference case through the real path (folder, plan, kernels, optimizer) and compares every
// number with the other framework's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "ops/backend.h"

namespace litespark {

struct VerifyCheck {
  std::string name;  ///< "logits", "loss.0", "grad.model.norm.weight", "update.model.norm.weight"
  double error = 0;  ///< NaN counts as failed
  double limit = 0;
  bool pass = false;
};

struct VerifyReport {
  std::string kind;
  std::vector<VerifyCheck> checks;

  bool pass() const;
};

/// Limits: f32: logits max abs error 2e-4 of the largest |logit|, loss 1e-5 relative, gradients 1e-4 relative L2, total
/// update 2e-3 relative L2. bf16: loss 1e-2, logits 5e-2, gradients 5e-2 (k_proj.bias, whose gradient nearly cancels,
/// is exempt); updates are not judged, since Adam's first steps follow the sign of tiny gradients.
VerifyReport verify_case(const std::filesystem::path& folder, Backend& backend, DType compute);

}  // namespace litespark
