// SPDX-License-Identifier: Apache-2.0
#include "calls_under_way.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"

namespace litespark::test {
namespace {

/// Divisible by the ranks of every test.
constexpr int64_t kElements = int64_t{12} << 14;
constexpr float kMark = -12345.0f;
constexpr auto kLateWritesCome = std::chrono::seconds(1);

/// The memory of one step's calls, none of which touches another's.
class StepCalls {
 public:
  explicit StepCalls(int size) : size_(size) {}

  CommTicket issue(Communicator& world) {
    const int next = (world.rank() + 1) % size_;
    const int before = (world.rank() + size_ - 1) % size_;
    world.all_reduce(whole(0), Reduction::kMax);
    world.reduce_scatter(piece(1), whole(2), Reduction::kMax);
    world.all_gather(whole(3), piece(4));
    world.all_to_all(whole(5), whole(6));
    world.exchange(piece(7), before, piece(8), next);
    return world.all_reduce(whole(9), Reduction::kMax);
  }

  void mark() {
    for (std::vector<float>& memory : memory_) std::fill(memory.begin(), memory.end(), kMark);
  }

  /// Which memory no longer has the mark: "" for none.
  std::string written() const {
    std::string text;
    for (size_t at = 0; at < memory_.size(); ++at) {
      const auto first = std::find_if(memory_[at].begin(), memory_[at].end(), [](float x) { return x != kMark; });
      if (first != memory_[at].end())
        text += " " + std::to_string(at) + "[" + std::to_string(first - memory_[at].begin()) + "]";
    }
    return text;
  }

 private:
  Tensor tensor(size_t at, int64_t elements) {
    memory_[at].resize(static_cast<size_t>(elements), 1.0f);
    return {.data = memory_[at].data(), .dtype = DType::kF32, .shape = {elements}, .device = Device::kCpu};
  }
  Tensor whole(size_t at) { return tensor(at, kElements); }
  Tensor piece(size_t at) { return tensor(at, kElements / size_); }

  int size_;
  std::array<std::vector<float>, 10> memory_;
};

}  // namespace

void endless_calls_under_way(Communicator& world) {
  std::array<StepCalls, 2> calls = {StepCalls(world.size()), StepCalls(world.size())};
  try {
    CommTicket last;
    for (int64_t step = 1;; ++step) {
      world.set_step(step);
      const CommTicket own = calls[static_cast<size_t>(step % 2)].issue(world);
      if (step > 1) {
        world.wait(last);
        std::cout << "step " << step - 1 << std::endl;
      }
      last = own;
    }
  } catch (const CommError&) {
    for (StepCalls& one : calls) one.mark();
    std::cout << "failed" << std::endl;
    std::this_thread::sleep_for(kLateWritesCome);
    const std::string written = calls[0].written() + calls[1].written();
    std::cout << "memory: " << (written.empty() ? "untouched" : "written to:" + written) << std::endl;
    throw;
  }
}

}  // namespace litespark::test
