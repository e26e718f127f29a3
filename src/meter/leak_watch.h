// SPDX-License-Identifier: Apache-2.0
// Memory that grows although the steady state allocates nothing, by owner. What grows once (buffers of the first save,
// kernels of the first evaluation) is no leak; what goes on growing is.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace litespark {

/// One owner's bytes at one moment.
struct OwnedBytes {
  std::string owner;
  int64_t bytes = 0;
  int64_t tolerance_bytes = 0;  ///< growth up to this is noise of how the owner is measured
};

struct MemoryGrowth {
  std::string owner;
  int64_t bytes = 0;
  int64_t from_step = 0;
  int64_t to_step = 0;
};

class LeakWatch {
 public:
  /// Samples that must all stand above all of as many earlier ones.
  static constexpr size_t kWindow = 4;

  /// Owners that have risen past their tolerance for the second time or more; `bytes` counts from the start of the
  /// watch or from the growth named before. Call it in the order of the steps.
  std::vector<MemoryGrowth> add(int64_t step, const std::vector<OwnedBytes>& sample);

 private:
  struct Sample {
    int64_t step = 0;
    int64_t bytes = 0;
  };
  struct Track {
    std::vector<Sample> base;  ///< the first window, or the one at the last rise
    std::deque<Sample> latest;
    int num_rises = 0;
    Sample named;  ///< where the growth to be named next begins
  };

  std::map<std::string, Track> tracks_;
};

/// "host heap grew by 12.0 MiB from step 40 to 200: a leak".
std::string growth_text(const MemoryGrowth& growth);

}  // namespace litespark
