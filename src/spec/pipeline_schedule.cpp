// SPDX-License-Identifier: Apache-2.0
#include "spec/pipeline_schedule.h"

#include <algorithm>

namespace litespark {
namespace {

using Kind = StageAction::Kind;

class StageSchedule {
 public:
  StageSchedule(const StagePlace& place, int64_t micro_batches) : place_(place), count_(micro_batches) {}

  std::vector<StageAction> make() {
    const int64_t warm_up = std::min(count_, place_.stages - place_.stage - 1);
    for (int64_t micro = 0; micro < warm_up; ++micro) {
      meet_previous(-1, micro);
      add(Kind::kForward, micro);
      meet_next(micro, -1);
    }
    if (warm_up < count_) meet_previous(-1, warm_up);
    for (int64_t backward = 0; backward < count_; ++backward) {
      const int64_t forward = warm_up + backward;
      const bool has_forward = forward < count_;
      if (has_forward) add(Kind::kForward, forward);
      meet_next(has_forward ? forward : -1, backward);
      add(Kind::kBackward, backward);
      meet_previous(backward, forward + 1 < count_ ? forward + 1 : -1);
    }
    return std::move(actions_);
  }

 private:
  void add(Kind kind, int64_t micro) { actions_.push_back({.kind = kind, .micro_batch = micro}); }

  void meet_previous(int64_t sent, int64_t received) {
    if (place_.is_first()) return;
    actions_.push_back({.kind = Kind::kMeetPrevious, .sent = sent, .received = received});
  }

  void meet_next(int64_t sent, int64_t received) {
    if (place_.is_last()) return;
    actions_.push_back({.kind = Kind::kMeetNext, .sent = sent, .received = received});
  }

  StagePlace place_;
  int64_t count_;
  std::vector<StageAction> actions_;
};

}  // namespace

int64_t most_in_flight(const StagePlace& place, int64_t micro_batches) {
  return std::min(micro_batches, place.stages - place.stage);
}

std::vector<StageAction> one_forward_one_backward(const StagePlace& place, int64_t micro_batches) {
  return StageSchedule(place, micro_batches).make();
}

}  // namespace litespark
