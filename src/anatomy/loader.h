// SPDX-License-Identifier: Apache-2.0
// Chapter `loader` (claim:C16): how long a step waits for its data with no, one and more workers, from plain shards and
// from compressed files, while the device computes.
#pragma once

#include <filesystem>

#include "anatomy/chapter.h"
#include "anatomy/measure.h"
#include "data/loader.h"

namespace litespark::anatomy {

struct LoaderSizes {
  int64_t sequences = 16;  ///< of a micro-batch
  int64_t length = 4096;
  int64_t num_batches = 24;  ///< held on disk, and taken in each measurement
  int64_t most_workers = 2;
  double step_seconds = 0.01;  ///< that the device computes for each micro-batch
};

/// Writes its files, about 2 bytes a token, into `folder`, which must be there and empty. Throws IoError.
Chapter loader_chapter(Backend& backend, const MeasureOptions& options, const LoaderSizes& sizes,
                       const std::filesystem::path& folder);

/// Mean seconds of a step that waits for its micro-batch, computes for `step_seconds` and asks for the next one.
struct LoaderStall {
  double wait_seconds = 0;
  double whole_seconds = 0;
};
LoaderStall measure_stall(const BatchSource& source, const Loader::Options& options, int64_t num_batches,
                          const std::function<void()>& compute);

}  // namespace litespark::anatomy
