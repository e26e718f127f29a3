// SPDX-License-Identifier: Apache-2.0
// Which attention is the faster one where several could run. Pure functions of the shape, measured on one H200
// (bench/results/2026-11-29-h200-attention.txt); the backend falls back on what there is.
#pragma once

namespace litespark::cuda {

/// Our Hopper forward beside cuDNN's, documents of one length: ahead with heads of 128 from 4,096 tokens on (549 to 546
/// TFLOP/s; 614 to 576 at 8,192; 645 to 597 at 16,384), behind below that and with heads of 64.
constexpr bool hopper_forward_is_faster(int head_dim, int max_length) {
  return head_dim == 128 && max_length >= 4096;
}

}  // namespace litespark::cuda
