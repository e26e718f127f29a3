// SPDX-License-Identifier: Apache-2.0
#include "spec/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/error.h"

namespace litespark {
namespace {

using Kind = StageAction::Kind;

/// The `index`-th forward or backward of a stage. P micro-batches at a time go through the chunks.
StageAction unit_at(const StagePlace& place, int64_t index, Kind kind) {
  if (place.chunks == 1) return {.kind = kind, .micro_batch = index, .chunk = 0};
  const int64_t round = place.stages * place.chunks;
  const int64_t within = index % round;
  const int64_t chunk = within / place.stages;
  return {.kind = kind,
          .micro_batch = index / round * place.stages + within % place.stages,
          .chunk = kind == Kind::kForward ? chunk : place.chunks - 1 - chunk};
}

/// All stages at work, each unit as early as its inputs allow: a forward lasts 1, a backward 2.
class Timetable {
 public:
  Timetable(const StagePlace& shape, int64_t micro_batches) : shape_(shape) {
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      lines_.push_back({.units = stage_units({shape.stages, stage, shape.chunks}, micro_batches)});
    }
    for (bool moves = true; moves;) {
      moves = false;
      for (int64_t stage = 0; stage < shape.stages; ++stage) {
        while (take_next(stage)) moves = true;
      }
    }
    for (const Line& line : lines_) {
      if (line.ends.size() == line.units.size()) continue;
      throw InternalError("pipeline", "stages wait for each other for ever", line.ends.size(), line.units.size());
    }
  }

  /// When each of a stage's units ends.
  const std::vector<int64_t>& ends(int64_t stage) const { return line(stage).ends; }

  /// A call of a stage, and where it stands among all calls.
  struct Call {
    StageAction action;
    std::tuple<int64_t, int64_t> place;  ///< when it is ready, then by the stage that sends
  };
  std::vector<Call> calls(int64_t stage) const {
    std::vector<Call> all;
    for (int64_t sender = 0; sender < shape_.stages; ++sender) add_calls(stage, sender, all);
    std::stable_sort(all.begin(), all.end(), [](const Call& a, const Call& b) { return a.place < b.place; });
    return all;
  }

 private:
  struct Line {
    std::vector<StageAction> units;
    std::vector<int64_t> ends;  ///< of those that were taken
  };
  /// A unit of the whole model: its chunk counted over all stages.
  using Done = std::tuple<Kind, int64_t, int64_t>;

  const Line& line(int64_t stage) const { return lines_[static_cast<size_t>(stage)]; }
  int64_t place_in_model(int64_t stage, int64_t chunk) const { return chunk * shape_.stages + stage; }

  /// What a unit reads of another one; nullopt: nothing.
  std::optional<Done> input_of(int64_t stage, const StageAction& unit) const {
    const int64_t place = place_in_model(stage, unit.chunk);
    if (unit.kind == Kind::kForward) {
      if (place == 0) return std::nullopt;
      return Done{Kind::kForward, unit.micro_batch, place - 1};
    }
    if (place + 1 == shape_.stages * shape_.chunks) return Done{Kind::kForward, unit.micro_batch, place};
    return Done{Kind::kBackward, unit.micro_batch, place + 1};
  }

  bool take_next(int64_t stage) {
    Line& mine = lines_[static_cast<size_t>(stage)];
    if (mine.ends.size() == mine.units.size()) return false;
    const StageAction& unit = mine.units[mine.ends.size()];
    int64_t start = mine.ends.empty() ? 0 : mine.ends.back();
    if (const auto input = input_of(stage, unit)) {
      const auto found = done_.find(*input);
      if (found == done_.end()) return false;
      start = std::max(start, found->second);
    }
    const int64_t end = start + (unit.kind == Kind::kForward ? 1 : 2);
    mine.ends.push_back(end);
    done_[{unit.kind, unit.micro_batch, place_in_model(stage, unit.chunk)}] = end;
    return true;
  }

  /// What `sender` gives away that `stage` sends or receives.
  void add_calls(int64_t stage, int64_t sender, std::vector<Call>& all) const {
    for (size_t index = 0; index < line(sender).units.size(); ++index) {
      const StageAction& unit = line(sender).units[index];
      const bool is_forward = unit.kind == Kind::kForward;
      const int64_t receiver_place = place_in_model(sender, unit.chunk) + (is_forward ? 1 : -1);
      if (receiver_place < 0 || receiver_place == shape_.stages * shape_.chunks) continue;
      const std::tuple<int64_t, int64_t> place{line(sender).ends[index], sender};
      if (stage == sender) {
        const Kind kind = is_forward ? Kind::kSendStream : Kind::kSendGradient;
        all.push_back({.action = {kind, unit.micro_batch, unit.chunk}, .place = place});
      } else if (stage == receiver_place % shape_.stages) {
        const Kind kind = is_forward ? Kind::kReceiveStream : Kind::kReceiveGradient;
        all.push_back({.action = {kind, unit.micro_batch, receiver_place / shape_.stages}, .place = place});
      }
    }
  }

  StagePlace shape_;
  std::vector<Line> lines_;
  std::map<Done, int64_t> done_;
};

}  // namespace

std::vector<StageAction> stage_units(const StagePlace& place, int64_t micro_batches) {
  if (place.chunks > 1 && micro_batches % place.stages != 0) {
    throw InternalError("pipeline", "several chunks a stage need whole rounds of micro-batches", micro_batches,
                        "a multiple of " + std::to_string(place.stages));
  }
  const int64_t count = micro_batches * place.chunks;
  const int64_t behind = place.stages - place.stage - 1;
  const int64_t warm_up = std::min(count, place.chunks == 1 ? behind : 2 * behind + (place.chunks - 1) * place.stages);
  std::vector<StageAction> units;
  for (int64_t forward = 0; forward < warm_up; ++forward) units.push_back(unit_at(place, forward, Kind::kForward));
  for (int64_t backward = 0; backward < count; ++backward) {
    const int64_t forward = warm_up + backward;
    if (forward < count) units.push_back(unit_at(place, forward, Kind::kForward));
    units.push_back(unit_at(place, backward, Kind::kBackward));
  }
  return units;
}

int64_t most_in_flight(const StagePlace& place, int64_t micro_batches) {
  int64_t most = 0;
  int64_t now = 0;
  for (const StageAction& unit : stage_units(place, micro_batches)) {
    now += unit.kind == Kind::kForward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::vector<StageAction> stage_schedule(const StagePlace& place, int64_t micro_batches) {
  const Timetable table(place, micro_batches);
  const std::vector<StageAction> units = stage_units(place, micro_batches);
  const std::vector<int64_t>& ends = table.ends(place.stage);
  const std::vector<Timetable::Call> calls = table.calls(place.stage);
  std::vector<StageAction> actions;
  size_t call = 0;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    for (; call < calls.size() && std::get<0>(calls[call].place) < ends[unit]; ++call) {
      actions.push_back(calls[call].action);
    }
    actions.push_back(units[unit]);
  }
  for (; call < calls.size(); ++call) actions.push_back(calls[call].action);
  return actions;
}

}  // namespace litespark
