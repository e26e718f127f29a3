// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: emulated kernels have no streams.
#pragma once

namespace litespark::cuda {

struct DeviceContext {
  int shared_bytes_per_block = 232448;
  int compute_capability = 90;
  int num_multiprocessors = 1;
  bool deterministic = true;
};

}  // namespace litespark::cuda
