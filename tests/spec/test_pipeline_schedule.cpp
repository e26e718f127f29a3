// SPDX-License-Identifier: Apache-2.0
// One forward, one backward: what a stage does in which order, played with stages that wait for each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "core/error.h"
#include "spec/pipeline_schedule.h"

namespace litespark {
namespace {

using Kind = StageAction::Kind;

/// P, v, m: all that there can be of small ones.
struct Shape {
  int64_t stages, chunks, micro_batches;

  StagePlace place(int64_t stage) const { return {.stages = stages, .stage = stage, .chunks = chunks}; }
  std::string text() const {
    return std::to_string(stages) + " stages x " + std::to_string(chunks) +
           " chunks, micro-batches: " + std::to_string(micro_batches);
  }
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int64_t stages = 1; stages <= 5; ++stages) {
    for (const int64_t micro_batches : {1, 2, 3, 4, 5, 9}) all.push_back({stages, 1, micro_batches});
    for (const int64_t chunks : {2, 3}) {
      if (stages == 1) continue;
      for (const int64_t rounds : {1, 2, 3}) all.push_back({stages, chunks, rounds * stages});
    }
  }
  return all;
}

std::string text_of(const std::vector<StageAction>& actions) {
  static constexpr const char* kNames[] = {"F", "B", ">", "(>)", "<", "(<)"};
  std::string text;
  for (const StageAction& action : actions) {
    text += (text.empty() ? "" : " ") + std::string(kNames[static_cast<size_t>(action.kind)]) +
            std::to_string(action.micro_batch) + (action.chunk == 0 ? "" : "b");
  }
  return text;
}

/// All stages of a step: each makes its actions in order, its calls one after another, and each call waits for the
/// other side. A forward takes 1, a backward 2 units of time and a call none.
class Replay {
 public:
  explicit Replay(const Shape& shape) : shape_(shape), stages_(static_cast<size_t>(shape.stages)) {
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      of(stage).actions = stage_schedule(shape.place(stage), shape.micro_batches);
    }
    for (bool moves = true; moves;) {
      moves = false;
      for (int64_t stage = 0; stage < shape.stages; ++stage) {
        while (act(stage)) moves = true;
        while (transfer(stage)) moves = true;
      }
    }
  }

  bool is_stuck() const {
    return std::any_of(stages_.begin(), stages_.end(),
                       [](const Stage& stage) { return stage.next != stage.actions.size() || !stage.calls.empty(); });
  }
  double end() const {
    double last = 0;
    for (const Stage& stage : stages_) last = std::max(last, stage.clock);
    return last;
  }

 private:
  /// Which tensor a call is about: whether a stream, the micro-batch, and the chunk of the model that makes it.
  using Subject = std::tuple<bool, int64_t, int64_t>;
  struct Call {
    Subject subject;
    double issued = 0;
  };
  struct Stage {
    std::vector<StageAction> actions;
    size_t next = 0;
    double clock = 0;
    std::deque<Call> calls;
    double calls_clock = 0;
    std::map<Subject, double> done;
    std::vector<Subject> sends;  ///< to be waited for behind the next unit
    bool waits_for_sends = false;
  };

  Stage& of(int64_t stage) { return stages_[static_cast<size_t>(stage)]; }

  Subject subject_of(int64_t stage, const StageAction& action) const {
    const int64_t place = action.chunk * shape_.stages + stage;
    switch (action.kind) {
      case Kind::kSendStream: return {true, action.micro_batch, place};
      case Kind::kForward:
      case Kind::kReceiveStream: return {true, action.micro_batch, place - 1};
      case Kind::kSendGradient: return {false, action.micro_batch, place};
      case Kind::kBackward:
      case Kind::kReceiveGradient: return {false, action.micro_batch, place + 1};
    }
    return {};
  }

  bool act(int64_t stage) {
    Stage& mine = of(stage);
    if (mine.waits_for_sends) {
      for (const Subject& send : mine.sends) {
        if (!mine.done.contains(send)) return false;
        mine.clock = std::max(mine.clock, mine.done.at(send));
      }
      mine.sends.clear();
      mine.waits_for_sends = false;
    }
    if (mine.next == mine.actions.size()) return false;
    const StageAction& action = mine.actions[mine.next];
    const Subject subject = subject_of(stage, action);
    if (action.is_call()) {
      mine.calls.push_back({subject, mine.clock});
      if (action.kind == Kind::kSendStream || action.kind == Kind::kSendGradient) mine.sends.push_back(subject);
    } else {
      const auto [is_stream, micro, place] = subject;
      const bool reads_nothing = place < 0 || place == shape_.stages * shape_.chunks;
      if (!reads_nothing && shape_.stages > 1) {
        if (!mine.done.contains(subject)) return false;
        mine.clock = std::max(mine.clock, mine.done.at(subject));
      }
      mine.clock += is_stream ? 1 : 2;
      mine.waits_for_sends = true;
    }
    ++mine.next;
    return true;
  }

  bool transfer(int64_t stage) {
    Stage& mine = of(stage);
    if (mine.calls.empty()) return false;
    for (Stage& other : stages_) {
      if (&other == &mine || other.calls.empty() || other.calls.front().subject != mine.calls.front().subject) continue;
      const double when = std::max(std::max(mine.calls.front().issued, other.calls.front().issued),
                                   std::max(mine.calls_clock, other.calls_clock));
      for (Stage* side : {&mine, &other}) {
        side->done[side->calls.front().subject] = side->calls_clock = when;
        side->calls.pop_front();
      }
      return true;
    }
    return false;
  }

  Shape shape_;
  std::vector<Stage> stages_;
};

TEST(PipelineSchedule, ReadsLikeTheFigure) {
  EXPECT_EQ(text_of(stage_units({.stages = 3, .stage = 0}, 4)), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text_of(stage_units({.stages = 3, .stage = 2}, 4)), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text_of(stage_units({.stages = 2, .stage = 0, .chunks = 2}, 4)),
            "F0 F1 F0b F1b F2 B0b F3 B1b F2b B0 F3b B1 B2b B3b B2 B3");
  EXPECT_EQ(text_of(stage_units({.stages = 2, .stage = 1, .chunks = 2}, 4)),
            "F0 F1 F0b B0b F1b B1b F2 B0 F3 B1 F2b B2b F3b B3b B2 B3");
  EXPECT_EQ(text_of(stage_schedule({.stages = 2, .stage = 0}, 3)), "F0 >0 F1 >1 (<)0 B0 F2 >2 (<)1 B1 (<)2 B2");
  EXPECT_EQ(text_of(stage_schedule({.stages = 2, .stage = 1}, 3)), "(>)0 F0 (>)1 B0 <0 F1 B1 (>)2 <1 F2 B2 <2");
  EXPECT_EQ(text_of(stage_schedule({}, 2)), "F0 B0 F1 B1");
}

TEST(PipelineSchedule, EveryMicroBatchGoesThroughEveryChunkForwardBeforeBackward) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.text());
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      std::set<std::pair<int64_t, int64_t>> forwards, backwards;
      std::vector<int64_t> last_backward(static_cast<size_t>(shape.chunks), -1);
      for (const StageAction& unit : stage_units(shape.place(stage), shape.micro_batches)) {
        const std::pair<int64_t, int64_t> what{unit.micro_batch, unit.chunk};
        if (unit.kind == Kind::kForward) {
          EXPECT_TRUE(forwards.insert(what).second);
          continue;
        }
        EXPECT_TRUE(forwards.contains(what));
        EXPECT_TRUE(backwards.insert(what).second);
        // The order in which gradients are added.
        int64_t& last = last_backward[static_cast<size_t>(unit.chunk)];
        EXPECT_EQ(unit.micro_batch, last + 1);
        last = unit.micro_batch;
      }
      EXPECT_EQ(std::ssize(forwards), shape.micro_batches * shape.chunks);
      EXPECT_EQ(backwards, forwards);
    }
  }
}

TEST(PipelineSchedule, KeepsNoMoreMicroBatchesInFlightThanStagesAreToCome) {
  for (const Shape& shape : shapes()) {
    if (shape.chunks > 1) continue;
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      EXPECT_EQ(most_in_flight(shape.place(stage), shape.micro_batches),
                std::min(shape.micro_batches, shape.stages - stage));
    }
  }
  EXPECT_EQ(most_in_flight({.stages = 4, .stage = 0, .chunks = 2}, 8), 2 * 3 + 4 + 1);
}

TEST(PipelineSchedule, NobodyWaitsForEver) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.text());
    EXPECT_FALSE(Replay(shape).is_stuck());
  }
}

// (P - 1) / (v m) of the work, as Narayanan et al. 2021 count it: calls that wait for both sides cost nothing more.
TEST(PipelineSchedule, IdlesForOneChunkLessThanThereAreStages) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.text());
    EXPECT_EQ(Replay(shape).end(), 3 * static_cast<double>(shape.micro_batches * shape.chunks + shape.stages - 1));
  }
}

TEST(PipelineSchedule, RefusesChunksWithoutWholeRounds) {
  EXPECT_THROW(stage_units({.stages = 2, .stage = 0, .chunks = 2}, 3), InternalError);
}

}  // namespace
}  // namespace litespark
