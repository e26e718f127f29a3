// SPDX-License-Identifier: Apache-2.0
// Moments on the compute stream, by events. They resolve half a microsecond.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"

namespace litespark::cuda {
namespace {

class EventTimer final : public DeviceTimer {
 public:
  explicit EventTimer(cudaStream_t stream) : stream_(stream) {}
  ~EventTimer() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  void mark() override {
    if (num_marks_ == events_.size()) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreateWithFlags(&event, cudaEventDefault), "timer");
      events_.push_back(event);
    }
    check(cudaEventRecord(events_[num_marks_++], stream_), "timer");
  }

  std::vector<double> take() override {
    std::vector<double> seconds;
    if (num_marks_ > 0) check(cudaEventSynchronize(events_[num_marks_ - 1]), "timer");
    for (size_t i = 0; i < num_marks_; ++i) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, events_.front(), events_[i]), "timer");
      seconds.push_back(1e-3 * static_cast<double>(milliseconds));
    }
    num_marks_ = 0;
    return seconds;
  }

 private:
  cudaStream_t stream_;
  std::vector<cudaEvent_t> events_;  ///< made as they are needed, then used again
  size_t num_marks_ = 0;
};

}  // namespace

std::unique_ptr<DeviceTimer> CudaBackend::make_timer() {
  return std::make_unique<EventTimer>(context_.stream);
}

}  // namespace litespark::cuda
