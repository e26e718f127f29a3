// SPDX-License-Identifier: Apache-2.0
// Which attention is the faster one where several could run. Pure functions of the shape, measured on one H200; the
// backend falls back on what there is.
#pragma once

namespace litespark::cuda {

/// Our Hopper forward beside cuDNN's, documents of one length. Heads of 64 and 128: ahead from 2,048 tokens on (of 128:
/// 508 to 495 TFLOP/s at 2,048, 562 to 549 at 4,096, 609 to 575 at 16,384; of 64: 388 to 374, 439 to 411, 507 to 444 at
/// 131,072), behind at 1,024 (416 to 420, 275 to 305; bench/results/2026-12-01-h200-attention-forward.txt). Of 96 and
/// 256: ahead at 1,024 already (365 to 339, 478 to 465), the shortest that was measured
/// (bench/results/2026-12-01-h200-attention-heads.txt).
constexpr bool hopper_forward_is_faster(int head_dim, int max_length) {
  return head_dim == 96 || head_dim == 256 || max_length >= 2048;
}

}  // namespace litespark::cuda
