// SPDX-License-Identifier: Apache-2.0
#include "ops/device_timer.h"

#include <chrono>

namespace litespark {
namespace {

class HostTimer final : public DeviceTimer {
 public:
  void mark() override { moments_.push_back(Clock::now()); }

  std::vector<double> take() override {
    std::vector<double> seconds;
    seconds.reserve(moments_.size());
    for (const Clock::time_point moment : moments_) {
      seconds.push_back(std::chrono::duration<double>(moment - moments_.front()).count());
    }
    moments_.clear();
    return seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<Clock::time_point> moments_;  ///< its capacity stays, so only the first sample allocates
};

}  // namespace

std::unique_ptr<DeviceTimer> make_host_timer() {
  return std::make_unique<HostTimer>();
}

}  // namespace litespark
