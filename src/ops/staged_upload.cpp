// SPDX-License-Identifier: Apache-2.0
#include "ops/staged_upload.h"

#include "ops/backend.h"

namespace litespark {
namespace {

class DirectUpload final : public StagedUpload {
 public:
  DirectUpload(Backend& backend, void* destination)
      : backend_(backend), destination_(static_cast<std::byte*>(destination)) {}

  void fill(std::span<const Part> parts) override {
    for (const Part& part : parts) {
      backend_.copy_to_device(destination_ + part.offset_bytes, part.source, part.bytes);
    }
  }

 private:
  Backend& backend_;
  std::byte* destination_;
};

}  // namespace

std::unique_ptr<StagedUpload> make_direct_upload(Backend& backend, void* destination) {
  return std::make_unique<DirectUpload>(backend, destination);
}

std::unique_ptr<StagedUpload> Backend::make_staged_upload(const Tensor& destination, const Tensor& /*staging*/) {
  return make_direct_upload(*this, destination.data);
}

}  // namespace litespark
