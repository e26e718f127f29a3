// SPDX-License-Identifier: Apache-2.0
#include "meter/leak_watch.h"

#include <algorithm>

#include "core/text_table.h"

namespace litespark {
namespace {

template <class Samples>
auto extremes(const Samples& samples) {
  return std::minmax_element(samples.begin(), samples.end(),
                             [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
}

}  // namespace

std::vector<MemoryGrowth> LeakWatch::add(int64_t step, const std::vector<OwnedBytes>& sample) {
  std::vector<MemoryGrowth> growths;
  for (const OwnedBytes& owned : sample) {
    Track& track = tracks_[owned.owner];
    const Sample now{.step = step, .bytes = owned.bytes};
    if (track.base.empty()) track.named = now;
    if (track.base.size() < kWindow) {
      track.base.push_back(now);
      continue;
    }
    track.latest.push_back(now);
    if (track.latest.size() > kWindow) track.latest.pop_front();
    if (track.latest.size() < kWindow) continue;
    const int64_t rise = extremes(track.latest).first->bytes - extremes(track.base).second->bytes;
    if (rise <= owned.tolerance_bytes) continue;
    track.base.assign(track.latest.begin(), track.latest.end());
    track.latest.clear();
    if (++track.num_rises < 2) continue;
    growths.push_back(
        {.owner = owned.owner, .bytes = now.bytes - track.named.bytes, .from_step = track.named.step, .to_step = step});
    track.named = now;
  }
  return growths;
}

std::string growth_text(const MemoryGrowth& growth) {
  return growth.owner + " grew by " + bytes_text(growth.bytes) + " from step " + std::to_string(growth.from_step) +
         " to " + std::to_string(growth.to_step) + ": a leak";
}

}  // namespace litespark
