// SPDX-License-Identifier: Apache-2.0
#include "plan/attention_time.h"

#include <algorithm>
#include <cmath>

namespace litespark {
namespace {

/// Our Hopper kernels beside what AttentionRates says of the best known ones. A tile row pays for its start, its end
/// and the half of its diagonal that is masked, whatever its length: as much as `fixed` half lengths more of products
/// would take. Narrower heads lose 2^-narrow each time they halve, on exponentials and on shared memory, and of a row
/// with shorter products the fixed part is more.
struct OwnCurve {
  double limit = 1;
  double fixed = 1;
  double fixed_a_group = 0;  ///< more of it, shared by the heads of a group
  double narrow = 0;
};

// bench/results/2026-12-01-h200-attention-forward.txt, fixed order. Heads of 128 from 1,024 to 16,384 tokens lie on
// lines of 1 / rate over 1 / length: 627 and 548 TFLOP/s at the end, half at 520 and 600 tokens, 1,000 where each head
// of queries has keys of its own: a block backward loads and writes one tile of keys and values for all heads of a
// group. Heads of 64 from 1,024 to 131,072 give 0.81 and 0.96 of the end.
constexpr OwnCurve kOwnForward = {.limit = 1.022, .fixed = 1.3, .fixed_a_group = 0, .narrow = 0.3};
constexpr OwnCurve kOwnBackward = {.limit = 1.086, .fixed = 1, .fixed_a_group = 1.5, .narrow = 0.06};

double own_share(const AttentionRates& rates, const AttentionHeads& heads) {
  const OwnCurve& curve = heads.is_backward ? kOwnBackward : kOwnForward;
  const double limit = std::min(1.0, curve.limit * (heads.is_backward ? rates.vendor_backward : rates.vendor_forward));
  const double narrow = std::pow(std::min(1.0, heads.width / rates.full_width), curve.narrow);
  const double half = rates.half_length * (curve.fixed + curve.fixed_a_group / heads.group) / narrow;
  return limit * narrow * heads.length / (heads.length + half);
}

double others_share(const AttentionRates& rates, AttentionKernel kernel, const AttentionHeads& heads) {
  double share = heads.is_backward ? rates.vendor_backward : rates.vendor_forward;
  if (kernel == AttentionKernel::kFlash1) share = rates.flash1;
  if (kernel == AttentionKernel::kFlash2) share = (heads.is_backward ? 0.85 : 1) * rates.flash2;
  // Short sequences leave the masked diagonal and the start of each tile row.
  const double relative = std::min(1.0, heads.width / rates.full_width);
  const bool is_best_backward =
      heads.is_backward && kernel != AttentionKernel::kFlash1 && kernel != AttentionKernel::kFlash2;
  const double half = (is_best_backward ? 2.25 : 1) * rates.half_length;
  // What heads of 64 lose forward; backward waits for shared memory whatever the width
  // (bench/results/2026-11-30-h200-attention-backward.txt).
  const double narrow = is_best_backward ? 1 : std::sqrt(std::sqrt(relative));
  return share * narrow * heads.length / (heads.length + half);
}

}  // namespace

double attention_rate(const Hardware& hardware, AttentionKernel kernel, const AttentionHeads& heads) {
  // A machine without multiprocessors is a CPU, or was measured with our own kernels.
  const bool is_own = kernel == AttentionKernel::kLitespark && hardware.multiprocessors > 0;
  return hardware.peak_flops(false) *
         (is_own ? own_share(hardware.attention, heads) : others_share(hardware.attention, kernel, heads));
}

}  // namespace litespark
