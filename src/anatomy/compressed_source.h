// SPDX-License-Identifier: Apache-2.0
// Micro-batches that must be decompressed before they can be used: what a loader's workers are for.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "data/batch_source.h"

namespace litespark::anatomy {

/// Writes `tokens` as gzip files of one micro-batch each into `folder`, which exists, and reads them back as they are
/// asked for, over and over. Ids are below 2^16. nullptr where this build reads no compressed files. Throws IoError.
std::unique_ptr<BatchSource> make_compressed_source(const std::filesystem::path& folder, const BatchShape& shape,
                                                    std::span<const int32_t> tokens);

}  // namespace litespark::anatomy
