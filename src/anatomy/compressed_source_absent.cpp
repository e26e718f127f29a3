// SPDX-License-Identifier: Apache-2.0
// A build without text tools reads no compressed files.
#include "anatomy/compressed_source.h"

namespace litespark::anatomy {

std::unique_ptr<BatchSource> make_compressed_source(const std::filesystem::path&, const BatchShape&,
                                                    std::span<const int32_t>) {
  return nullptr;
}

}  // namespace litespark::anatomy
