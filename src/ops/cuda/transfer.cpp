// SPDX-License-Identifier: Apache-2.0
// Copies between host memory of any kind and the device through a ring of page-locked slots, so that a copy in is one
// memcpy for the caller and overlaps with the ops already issued.
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/staging.h"

namespace litespark::cuda {

void StagingDeleter::operator()(Staging* staging) const {
  delete staging;
}

StagingPtr make_staging(const DeviceContext& context) {
  return StagingPtr(new Staging(context.stream, 32));
}

void CudaBackend::copy_to_device(void* destination, const void* source, int64_t bytes) {
  staging_->to_device(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes);
}

void CudaBackend::copy_to_host(void* destination, const void* source, int64_t bytes) {
  staging_->to_host(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes);
}

}  // namespace litespark::cuda
