// SPDX-License-Identifier: Apache-2.0
// Memory that grows although the steady state allocates nothing, by owner. What grows once (buffers of the first save,
// kernels of the first evaluation) is no leak; what goes on growing is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace litespark {

/// One owner's bytes at one moment.
struct OwnedBytes {
  std::string_view owner;  ///< of a text that outlives the watch
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
  /// The newest kWindow samples.
  struct Window {
    std::array<Sample, kWindow> samples;
    size_t size = 0;

    bool is_full() const { return size == kWindow; }
    void push(const Sample& sample);
    int64_t least() const;
    int64_t most() const;
  };
  struct Track {
    Window base;  ///< the first window, or the one at the last rise
    Window latest;
    int num_rises = 0;
    Sample named;  ///< where the growth to be named next begins
  };

  std::map<std::string_view, Track> tracks_;
};

/// "host heap grew by 12.0 MiB from step 40 to 200: a leak".
std::string growth_text(const MemoryGrowth& growth);

}  // namespace litespark
