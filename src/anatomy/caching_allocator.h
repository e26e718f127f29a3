// SPDX-License-Identifier: Apache-2.0
// A model of the allocator that frameworks put in front of a GPU's: it keeps what was freed, gives it out again best
// fit, splits blocks and merges neighbours. No memory is touched; sizes and order of calls decide everything. The rules
// and constants are those that PyTorch documents for its CUDA allocator.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace litespark::anatomy {

class CachingAllocator {
 public:
  /// Where a block lies: which piece of the device's memory, and where in it.
  struct Place {
    int64_t segment = 0;
    int64_t offset = 0;
    auto operator<=>(const Place&) const = default;
  };

  Place allocate(int64_t bytes);
  /// `place` came from allocate. Throws InternalError when it is not given out.
  void release(const Place& place);

  int64_t reserved_bytes() const { return reserved_; }    ///< asked of the device so far
  int64_t allocated_bytes() const { return allocated_; }  ///< given out, rounded as blocks are
  int64_t peak_requested_bytes() const { return peak_; }  ///< largest sum of what callers asked for at a time
  int64_t num_segments() const { return num_segments_; }

 private:
  struct Block {
    int64_t bytes = 0;
    int64_t requested = 0;
    bool is_free = false;
    bool is_small = false;
  };
  using Blocks = std::map<Place, Block>;
  using FreeKey = std::tuple<bool, int64_t, Place>;  ///< small, bytes, place

  Blocks::iterator take_segment(int64_t bytes, bool is_small);
  void split(Blocks::iterator block, int64_t bytes);
  Blocks::iterator merge(Blocks::iterator first, Blocks::iterator second);

  Blocks blocks_;
  std::set<FreeKey> free_;
  int64_t num_segments_ = 0;
  int64_t reserved_ = 0;
  int64_t allocated_ = 0;
  int64_t requested_ = 0;
  int64_t peak_ = 0;
};

}  // namespace litespark::anatomy
