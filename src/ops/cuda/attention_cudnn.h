// SPDX-License-Identifier: Apache-2.0
// cuDNN's fused attention for batches of equal documents, behind an interface so that a build or a machine without the
// library has the same callers. Implemented by attention_cudnn.cpp, or by attention_cudnn_generic.cpp without headers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/op/attention.h"
#include "core/tensor.h"
#include "ops/cuda/device_context.h"

namespace litespark::cuda {

/// One plan: everything that changes the kernels or their workspace.
struct SdpaKey {
  int batch = 0;   ///< B documents ...
  int length = 0;  ///< ... of exactly T tokens
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;
  float scale = 0;
  bool backward = false;
  bool deterministic = false;  ///< backward only

  auto operator<=>(const SdpaKey&) const = default;
};

/// Plans are built on first request (never while a graph is being captured) and kept.
/// The statistics tensor keeps the bytes of [H, N] f32 but is laid out [B, H, T] as the library writes it; only this
/// library's own backward may read it (for B = 1 both layouts agree).
class SdpaLibrary {
 public:
  virtual ~SdpaLibrary() = default;
  /// "cudnn 9.19.0".
  virtual std::string name() const = 0;
  /// Bytes that the plan of `key` needs; nullopt when the library has no plan for it.
  virtual std::optional<int64_t> workspace_bytes(const SdpaKey& key) = 0;
  /// Throws DeviceError when the library fails, InternalError when the scratch is smaller than workspace_bytes.
  virtual void forward(cudaStream_t stream, const SdpaKey& key, const op::AttentionForward<Tensor>& op) = 0;
  virtual void backward(cudaStream_t stream, const SdpaKey& key, const op::AttentionBackward<Tensor>& op) = 0;
};

/// What open_sdpa_library found, or why it found nothing.
struct SdpaOpening {
  std::unique_ptr<SdpaLibrary> library;  ///< null: use the portable kernels
  std::string reason;                    ///< set when library is null
};
SdpaOpening open_sdpa_library();

}  // namespace litespark::cuda
