// SPDX-License-Identifier: Apache-2.0
// GPUs that talk through NCCL: calls go on a stream of their own beside the ops, and a watching thread ends what does
// not end by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dist/communicator.h"

namespace litespark {

/// What the ranks of one communicator have in common: made by one, given to all.
using NcclId = std::array<std::byte, 128>;
/// Throws ConfigError when there is no NCCL, CommError when it fails.
NcclId make_nccl_id();

/// "2.28.9 (/usr/lib/libnccl.so.2)". Throws ConfigError when there is no NCCL.
std::string nccl_version_text();

struct NcclOptions {
  NcclId id;
  int rank = 0;
  int size = 1;
  int device = 0;                  ///< CUDA ordinal; made current for the calling thread
  void* compute_stream = nullptr;  ///< cudaStream_t of the ops that calls are ordered against
  double timeout_seconds = 600;    ///< of forming, and of each call from when the ops and calls before it are done
  bool is_ordered = false;         ///< sums in rank order: pieces to their owner, added by a kernel of ours
  /// The calling thread launches, instead of a new thread of NCCL's for each call: 12 us a small call instead of 70.
  /// Such calls cannot be recorded: two ranks of one process hung in it (NCCL 2.28.9).
  bool is_blocking = false;
  int max_blocks = 0;                       ///< that NCCL may take from the ops beside it; 0: its own choice
  int64_t inbox_bytes = int64_t{32} << 20;  ///< device memory for pieces that a kernel of ours adds
  /// cudaStream_t of a communicator that this one shares ranks with: NCCL wants their calls in one order on all ranks,
  /// and a stream keeps that of the host. nullptr: a stream of its own.
  void* shared_stream = nullptr;
  std::string group;  ///< of a split, for messages
};

/// Collective: returns when all ranks have come. Without `is_ordered` sums of f32 and f64 add in NCCL's order; maxima,
/// and sums of bf16 over more than two ranks, are always made by our kernel, since NCCL rounds bf16 at every hop and
/// loses NaN.
///
/// `wait` and the calls may be recorded into a CUDA graph by capturing the compute stream: whatever is issued in a
/// capture is waited for in it, and nothing from before it is. Graphs go before the communicator. A replayed call is
/// watched like any other.
///
/// NCCL does not see what other ranks call: calls that differ are found at the next barrier, where all ranks compare
/// what they called since they began, or by the deadline. It does not say who is late either. Throws CommError when
/// forming fails, DeviceError when CUDA does.
std::unique_ptr<Communicator> make_nccl_communicator(const NcclOptions& options);

}  // namespace litespark
