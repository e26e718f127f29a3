// SPDX-License-Identifier: Apache-2.0
#include "anatomy/caching_allocator.h"

#include <algorithm>
#include <iterator>

#include "core/checked.h"
#include "core/error.h"

namespace litespark::anatomy {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBlockRounding = 512;
constexpr int64_t kLargestSmall = kMiB;        ///< requests up to here share small segments
constexpr int64_t kSmallSegment = 2 * kMiB;    ///< size of a segment for those
constexpr int64_t kMiddleSegment = 20 * kMiB;  ///< of one for requests below kLeastLarge
constexpr int64_t kLeastLarge = 10 * kMiB;     ///< from here on a segment is the request, rounded
constexpr int64_t kSegmentRounding = 2 * kMiB;
constexpr int64_t kLeastLargeRest = kMiB;  ///< of a large block, rests up to this stay with it

int64_t segment_bytes(int64_t bytes) {
  if (bytes <= kLargestSmall) return kSmallSegment;
  if (bytes < kLeastLarge) return kMiddleSegment;
  return round_up(bytes, kSegmentRounding);
}

}  // namespace

CachingAllocator::Blocks::iterator CachingAllocator::take_segment(int64_t bytes, bool is_small) {
  const Block block{.bytes = segment_bytes(bytes), .is_free = false, .is_small = is_small};
  reserved_ += block.bytes;
  return blocks_.emplace(Place{.segment = num_segments_++}, block).first;
}

void CachingAllocator::split(Blocks::iterator block, int64_t bytes) {
  const int64_t rest = block->second.bytes - bytes;
  const bool is_worth_it = block->second.is_small ? rest >= kBlockRounding : rest > kLeastLargeRest;
  if (!is_worth_it) return;
  block->second.bytes = bytes;
  const Place place{.segment = block->first.segment, .offset = block->first.offset + bytes};
  blocks_.emplace(place, Block{.bytes = rest, .is_free = true, .is_small = block->second.is_small});
  free_.emplace(block->second.is_small, rest, place);
}

CachingAllocator::Place CachingAllocator::allocate(int64_t bytes) {
  const int64_t rounded = round_up(std::max<int64_t>(bytes, 1), kBlockRounding);
  const bool is_small = rounded <= kLargestSmall;
  const auto fit = free_.lower_bound({is_small, rounded, Place{}});
  Blocks::iterator block;
  if (fit != free_.end() && std::get<0>(*fit) == is_small) {
    block = blocks_.find(std::get<2>(*fit));
    free_.erase(fit);
    block->second.is_free = false;
  } else {
    block = take_segment(rounded, is_small);
  }
  split(block, rounded);
  block->second.requested = bytes;
  allocated_ += block->second.bytes;
  requested_ += bytes;
  peak_ = std::max(peak_, requested_);
  return block->first;
}

CachingAllocator::Blocks::iterator CachingAllocator::merge(Blocks::iterator first, Blocks::iterator second) {
  first->second.bytes += second->second.bytes;
  blocks_.erase(second);
  return first;
}

void CachingAllocator::release(const Place& place) {
  auto block = blocks_.find(place);
  if (block == blocks_.end() || block->second.is_free) {
    throw InternalError("caching_allocator", "releases what is not given out", place.offset, "a place of allocate");
  }
  allocated_ -= block->second.bytes;
  requested_ -= block->second.requested;
  block->second.is_free = true;
  const auto joins = [&](const Blocks::iterator& other) {
    return other != blocks_.end() && other->first.segment == place.segment && other->second.is_free;
  };
  const auto forget = [&](const Blocks::iterator& other) {
    free_.erase({other->second.is_small, other->second.bytes, other->first});
  };
  if (const auto after = std::next(block); joins(after)) {
    forget(after);
    block = merge(block, after);
  }
  if (block != blocks_.begin() && joins(std::prev(block))) {
    forget(std::prev(block));
    block = merge(std::prev(block), block);
  }
  free_.emplace(block->second.is_small, block->second.bytes, block->first);
}

}  // namespace litespark::anatomy
