// SPDX-License-Identifier: Apache-2.0
#include "core/threads.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/checked.h"

namespace litespark {

void parallel_stretches(int64_t count, int64_t grain, const std::function<void(int64_t first, int64_t end)>& body) {
  if (count <= 0) return;
  const int64_t hardware = std::max<int64_t>(std::thread::hardware_concurrency(), 1);
  const int64_t num_threads = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, hardware);
  const int64_t stretch = ceil_div(count, num_threads);
  std::exception_ptr failure;
  std::mutex mutex;
  const auto guarded = [&](int64_t first) {
    try {
      body(first, std::min(first + stretch, count));
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(num_threads));
  for (int64_t first = stretch; first < count; first += stretch) {
    try {
      threads.emplace_back(guarded, first);
    } catch (...) {
      guarded(first);  // a host that refuses a thread still has this one
    }
  }
  guarded(0);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace litespark
