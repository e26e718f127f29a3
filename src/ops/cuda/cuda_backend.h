// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: one GPU, one compute stream, streaming kernels of our own, cuBLASLt for matmuls.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ops/backend.h"

namespace litespark {

/// Which attention kernels to use.
enum class AttentionKind {
  kAuto,      ///< whichever is the fastest as measured, among what there is
  kPortable,  ///< our kernels for every GPU everywhere
  kCudnn,     ///< cuDNN wherever it has a plan; an error when the library is not found
  kHopper,    ///< our own Hopper kernels wherever they exist, else like kAuto
};

/// What is timed before a matmul's algorithm is chosen.
enum class MatmulSearch {
  kQuick,     ///< the library's best two dozen proposals
  kThorough,  ///< all its proposals, then the neighbours of the fastest
};

/// Kernels of which there are two. A default is the one that was faster on an H200, or the older where none was timed.
struct KernelChoices {
  /// SwiGLU inside the MLP's products (Hopper), where a timing before the first step finds that faster.
  bool swiglu_in_products = true;
  bool loss_through_ring = true;  ///< cross-entropy: rows pass through shared memory (Hopper and later)
};

struct CudaOptions {
  int ordinal = 0;            ///< device index among those that the driver shows
  bool deterministic = true;  ///< refuse algorithms whose result depends on the order of atomics
  AttentionKind attention = AttentionKind::kAuto;
  /// A cuDNN plan that wants more scratch is left aside: in deterministic mode the bytes grow with the square of the
  /// length. 0: an eighth of the device's memory.
  int64_t max_attention_scratch_bytes = 0;
  MatmulSearch matmul_search = MatmulSearch::kQuick;
  KernelChoices kernels;
};

/// Number of usable GPUs; 0 without a driver.
int cuda_device_count();

/// The driver and the libraries that the kernels call, with their versions; no driver: without it.
std::map<std::string, std::string> cuda_library_versions();

/// Throws ConfigError when there is no such device, DeviceError when the driver fails.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

/// The cudaStream_t that its ops run on, for a communicator that is ordered against them. Throws InternalError when the
/// backend is not of this file.
void* cuda_stream_of(const Backend& backend);

}  // namespace litespark
