// SPDX-License-Identifier: Apache-2.0
// One forward, one backward: what a stage does in which order, played with stages that wait for each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "spec/pipeline_schedule.h"

namespace litespark {
namespace {

using Kind = StageAction::Kind;

constexpr int64_t kMicroBatches[] = {1, 2, 3, 4, 5, 9};

std::string text_of(const StageAction& action) {
  const auto number = [](int64_t value) { return value < 0 ? std::string("-") : std::to_string(value); };
  switch (action.kind) {
    case Kind::kForward: return "F" + number(action.micro_batch);
    case Kind::kBackward: return "B" + number(action.micro_batch);
    case Kind::kMeetPrevious: return "<" + number(action.sent) + number(action.received);
    case Kind::kMeetNext: return ">" + number(action.sent) + number(action.received);
  }
  return "?";
}

std::string text_of(const StagePlace& place, int64_t micro_batches) {
  std::string text;
  for (const StageAction& action : one_forward_one_backward(place, micro_batches)) {
    text += (text.empty() ? "" : " ") + text_of(action);
  }
  return text;
}

/// All stages of a step, each of which goes on when both sides of its next call are there: a forward takes 1, a
/// backward 2 units of time and a call none.
struct Replay {
  double end = 0;
  bool is_stuck = false;
  bool calls_match = true;

  Replay(int64_t stages, int64_t micro_batches) {
    std::vector<std::vector<StageAction>> plans;
    for (int64_t stage = 0; stage < stages; ++stage) {
      plans.push_back(one_forward_one_backward({.stages = stages, .stage = stage}, micro_batches));
    }
    std::vector<size_t> next(plans.size(), 0);
    std::vector<double> clocks(plans.size(), 0);
    const auto is_done = [&](size_t stage) { return next[stage] == plans[stage].size(); };
    const auto go_on = [&](size_t stage) {
      const StageAction& action = plans[stage][next[stage]];
      if (action.kind == Kind::kForward || action.kind == Kind::kBackward) {
        clocks[stage] += action.kind == Kind::kForward ? 1 : 2;
        ++next[stage];
        return true;
      }
      if (action.kind == Kind::kMeetPrevious) return false;  // made from the other side
      const size_t other = stage + 1;
      if (is_done(other) || plans[other][next[other]].kind != Kind::kMeetPrevious) return false;
      const StageAction& answer = plans[other][next[other]];
      calls_match = calls_match && answer.sent == action.received && answer.received == action.sent;
      clocks[stage] = clocks[other] = std::max(clocks[stage], clocks[other]);
      ++next[stage];
      ++next[other];
      return true;
    };
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t stage = 0; stage < plans.size(); ++stage) {
        while (!is_done(stage) && go_on(stage)) moves = true;
      }
    }
    for (size_t stage = 0; stage < plans.size(); ++stage) is_stuck = is_stuck || !is_done(stage);
    end = *std::max_element(clocks.begin(), clocks.end());
  }
};

TEST(PipelineSchedule, ReadsLikeTheFigure) {
  EXPECT_EQ(text_of({.stages = 3, .stage = 0}, 4), "F0 >0- F1 >1- F2 >20 B0 F3 >31 B1 >-2 B2 >-3 B3");
  EXPECT_EQ(text_of({.stages = 3, .stage = 1}, 4),
            "<-0 F0 >0- <-1 F1 >10 B0 <02 F2 >21 B1 <13 F3 >32 B2 <2- >-3 B3 <3-");
  EXPECT_EQ(text_of({.stages = 3, .stage = 2}, 4), "<-0 F0 B0 <01 F1 B1 <12 F2 B2 <23 F3 B3 <3-");
  EXPECT_EQ(text_of({}, 2), "F0 B0 F1 B1");
}

TEST(PipelineSchedule, EveryMicroBatchGoesForwardBeforeItGoesBackwardAndEachInOrder) {
  for (int64_t stages = 1; stages <= 5; ++stages) {
    for (int64_t stage = 0; stage < stages; ++stage) {
      for (const int64_t count : kMicroBatches) {
        int64_t forwards = 0;
        int64_t backwards = 0;
        for (const StageAction& action : one_forward_one_backward({.stages = stages, .stage = stage}, count)) {
          if (action.micro_batch < 0) continue;
          EXPECT_EQ(action.micro_batch, action.kind == Kind::kForward ? forwards++ : backwards++);
          EXPECT_LE(backwards, forwards);
        }
        EXPECT_EQ(forwards, count);
        EXPECT_EQ(backwards, count);
      }
    }
  }
}

TEST(PipelineSchedule, KeepsNoMoreMicroBatchesInFlightThanStagesAreToCome) {
  for (int64_t stages = 1; stages <= 5; ++stages) {
    for (int64_t stage = 0; stage < stages; ++stage) {
      for (const int64_t count : kMicroBatches) {
        const StagePlace place{.stages = stages, .stage = stage};
        int64_t in_flight = 0;
        int64_t most = 0;
        for (const StageAction& action : one_forward_one_backward(place, count)) {
          if (action.kind == Kind::kForward) most = std::max(most, ++in_flight);
          if (action.kind == Kind::kBackward) --in_flight;
        }
        EXPECT_EQ(most, most_in_flight(place, count));
        EXPECT_EQ(most, std::min(count, stages - stage));
      }
    }
  }
}

TEST(PipelineSchedule, NeighboursMeetInTheSameOrderAndNobodyWaitsForEver) {
  for (int64_t stages = 1; stages <= 5; ++stages) {
    for (const int64_t count : kMicroBatches) {
      SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(count) + " micro-batches");
      const Replay replay(stages, count);
      EXPECT_FALSE(replay.is_stuck);
      EXPECT_TRUE(replay.calls_match);
    }
  }
}

// (P - 1) / m of the work, as Narayanan et al. 2021 count it, where calls that wait for both sides cost nothing more.
TEST(PipelineSchedule, IdlesForOneMicroBatchLessThanThereAreStages) {
  for (int64_t stages = 1; stages <= 5; ++stages) {
    for (const int64_t count : kMicroBatches) {
      EXPECT_EQ(Replay(stages, count).end, 3 * static_cast<double>(count + stages - 1));
    }
  }
}

}  // namespace
}  // namespace litespark
