// SPDX-License-Identifier: Apache-2.0
#include "meter/leak_watch.h"

#include <algorithm>

#include "core/text_table.h"

namespace litespark {

void LeakWatch::Window::push(const Sample& sample) {
  if (is_full()) std::move(samples.begin() + 1, samples.end(), samples.begin());
  samples[is_full() ? kWindow - 1 : size++] = sample;
}

int64_t LeakWatch::Window::least() const {
  int64_t bytes = samples[0].bytes;
  for (size_t i = 1; i < size; ++i) bytes = std::min(bytes, samples[i].bytes);
  return bytes;
}

int64_t LeakWatch::Window::most() const {
  int64_t bytes = samples[0].bytes;
  for (size_t i = 1; i < size; ++i) bytes = std::max(bytes, samples[i].bytes);
  return bytes;
}

std::vector<MemoryGrowth> LeakWatch::add(int64_t step, const std::vector<OwnedBytes>& sample) {
  std::vector<MemoryGrowth> growths;
  for (const OwnedBytes& owned : sample) {
    Track& track = tracks_[owned.owner];
    const Sample now{.step = step, .bytes = owned.bytes};
    if (track.base.size == 0) track.named = now;
    if (!track.base.is_full()) {
      track.base.push(now);
      continue;
    }
    track.latest.push(now);
    if (!track.latest.is_full()) continue;
    const int64_t rise = track.latest.least() - track.base.most();
    if (rise <= owned.tolerance_bytes) continue;
    track.base = track.latest;
    track.latest.size = 0;
    if (++track.num_rises < 2) continue;
    growths.push_back({.owner = std::string(owned.owner),
                       .bytes = now.bytes - track.named.bytes,
                       .from_step = track.named.step,
                       .to_step = step});
    track.named = now;
  }
  return growths;
}

std::string growth_text(const MemoryGrowth& growth) {
  return growth.owner + " grew by " + bytes_text(growth.bytes) + " from step " + std::to_string(growth.from_step) +
         " to " + std::to_string(growth.to_step) + ": a leak";
}

}  // namespace litespark
