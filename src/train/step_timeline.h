// SPDX-License-Identifier: Apache-2.0
// Observes a step on the device's own time line: a mark before every op and wherever the host turns to something else.
// What the host does while the device is busy costs nothing there; what the device waits for stands under its cause.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "meter/timeline.h"
#include "model/executor.h"
#include "ops/device_timer.h"

namespace litespark {

class StepTimeline final : public OpObserver {
 public:
  explicit StepTimeline(std::unique_ptr<DeviceTimer> timer) : timer_(std::move(timer)) {}

  /// Starts a step; what follows is kOtherScope until something is announced.
  void begin();
  /// Ends it and waits for the device.
  SampledStep end(int64_t step);

  void before(const TapeEntry& entry) override;
  void after(const TapeEntry&) override {}
  void enter(std::string_view scope) override;

 private:
  /// What begins at a mark. The views are literals of tapes and callers.
  struct Beginning {
    std::string_view scope;
    std::string_view op;
    int32_t layer = -1;
    bool is_recomputed = false;
  };
  void mark(const Beginning& beginning);

  std::unique_ptr<DeviceTimer> timer_;
  std::vector<Beginning> beginnings_;
};

}  // namespace litespark
