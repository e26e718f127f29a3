// SPDX-License-Identifier: Apache-2.0
#include "plan/step_replay.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/json_text.h"
#include "core/rng.h"

namespace litespark {
namespace {

constexpr double kMostEvents = double{1 << 28};

struct Event {
  int64_t chunk = 0;
  int64_t micro_batch = 0;
  bool is_backward = false;
};

/// The k-th forward (or backward) pass of any stage: micro-batches in groups of p, each group through all chunks.
Event pass_at(int64_t k, int64_t p, int64_t v, bool is_backward) {
  if (v == 1) return {.chunk = 0, .micro_batch = k, .is_backward = is_backward};
  const int64_t group = k / (p * v);
  const int64_t chunk = k % (p * v) / p;
  return {.chunk = is_backward ? v - 1 - chunk : chunk, .micro_batch = group * p + k % p, .is_backward = is_backward};
}

/// What a stage does, in order: forwards until its pipeline is full, then one backward for each forward (1F1B;
/// Narayanan et al. 2021, section 2.2).
std::vector<Event> stage_order(int64_t stage, int64_t p, int64_t v, int64_t micro_batches) {
  const int64_t passes = micro_batches * v;
  const int64_t warm_up = v == 1 ? p - stage - 1 : 2 * (p - stage - 1) + (v - 1) * p;
  std::vector<Event> order;
  int64_t forward = 0;
  int64_t backward = 0;
  while (forward < std::min(warm_up, passes)) order.push_back(pass_at(forward++, p, v, false));
  while (backward < passes) {
    if (forward < passes) order.push_back(pass_at(forward++, p, v, false));
    order.push_back(pass_at(backward++, p, v, true));
  }
  return order;
}

/// One pipeline: when each pass ends. Passes wait for their neighbour's, stages for themselves.
class Pipeline {
 public:
  Pipeline(int64_t p, int64_t v, int64_t micro_batches) : p_(p), v_(v), m_(micro_batches) {
    for (int64_t stage = 0; stage < p; ++stage) orders_.push_back(stage_order(stage, p, v, micro_batches));
  }

  /// `forward` and `backward` are seconds of one chunk on each stage; `spans` is filled unless it is null.
  double play(const std::vector<double>& forward, const std::vector<double>& backward,
              std::vector<ReplaySpan>* spans) const {
    std::vector<double> ends(static_cast<size_t>(2 * p_ * v_ * m_), -1);
    std::vector<double> free_at(static_cast<size_t>(p_), 0);
    std::vector<size_t> next(static_cast<size_t>(p_), 0);
    for (bool moves = true; moves;) {
      moves = false;
      for (int64_t stage = 0; stage < p_; ++stage) {
        const auto s = static_cast<size_t>(stage);
        while (next[s] < orders_[s].size()) {
          const Event& event = orders_[s][next[s]];
          const double ready = ready_at(event, stage, ends);
          if (ready < 0) break;
          const double start = std::max(ready, free_at[s]);
          const double end = start + (event.is_backward ? backward[s] : forward[s]);
          ends[index(event, stage)] = free_at[s] = end;
          if (spans != nullptr)
            spans->push_back({stage, event.chunk, event.micro_batch, event.is_backward, start, end});
          ++next[s];
          moves = true;
        }
      }
    }
    for (size_t s = 0; s < next.size(); ++s) {
      if (next[s] < orders_[s].size()) throw InternalError("replay", "the schedule waits for itself");
    }
    return *std::max_element(free_at.begin(), free_at.end());
  }

 private:
  size_t index(const Event& event, int64_t stage) const {
    const int64_t pass = (event.micro_batch * v_ + event.chunk) * p_ + stage;
    return static_cast<size_t>(2 * pass + (event.is_backward ? 1 : 0));
  }

  /// When what a pass needs is there; negative while it is not.
  double ready_at(const Event& event, int64_t stage, const std::vector<double>& ends) const {
    Event before = event;
    int64_t from = stage + (event.is_backward ? 1 : -1);
    if (from < 0) {
      if (event.chunk == 0) return 0;
      --before.chunk;
      from = p_ - 1;
    } else if (from == p_) {
      if (event.chunk == v_ - 1) {
        before.is_backward = false;
        from = p_ - 1;
      } else {
        ++before.chunk;
        from = 0;
      }
    }
    return ends[index(before, from)];
  }

  int64_t p_, v_, m_;
  std::vector<std::vector<Event>> orders_;
};

/// A stage is as slow as the slowest of its devices.
std::vector<double> stage_slowness(const ReplayQuestion& question, int64_t rank) {
  const Layout& layout = question.workload.layout;
  const RandomStream stream(question.seed, 0x5701);
  std::vector<double> slowness(static_cast<size_t>(layout.pp), 1.0);
  if (question.spread <= 0) return slowness;
  const int64_t devices = layout.tp * layout.cp;
  for (int64_t stage = 0; stage < layout.pp; ++stage) {
    double& slowest = slowness[static_cast<size_t>(stage)];
    for (int64_t device = 0; device < devices; ++device) {
      const int64_t number = (rank * layout.pp + stage) * devices + device;
      slowest = std::max(slowest, std::exp(question.spread * std::abs(stream.normal(static_cast<uint64_t>(number)))));
    }
  }
  return slowness;
}

}  // namespace

ReplayResult replay_step(const ReplayQuestion& question) {
  const Workload& workload = question.workload;
  const StepSeconds closed = step_seconds(workload, question.software, question.hardware);
  const Layout& layout = workload.layout;
  const auto micro_batches = static_cast<int64_t>(workload.micro_batches());
  // Interleaving needs whole groups of micro-batches.
  const int64_t v = micro_batches % layout.pp == 0 ? layout.vpp : 1;
  const double events = 2.0 * static_cast<double>(layout.pp * v * micro_batches) * static_cast<double>(layout.dp);
  if (events > kMostEvents) {
    throw ConfigError("replay", "has more events than are played", events, "at most 2^28; use the closed form");
  }
  // Of the closed form's busy time a third is forward, but for what is recomputed.
  const double tail = closed.gradients + closed.optimizer;
  const double busy = (closed.total - tail - closed.bubble) / static_cast<double>(micro_batches * v);
  const double backward_share =
      2.0 / 3 + (closed.total > 0 ? closed.recompute / (closed.total - tail - closed.bubble) / 3 : 0);
  const Pipeline pipeline(layout.pp, v, micro_batches);
  ReplayResult out;
  std::vector<double> forward(static_cast<size_t>(layout.pp));
  std::vector<double> backward(forward.size());
  const auto set = [&](int64_t rank) {
    const std::vector<double> slowness = stage_slowness(question, rank);
    for (size_t s = 0; s < forward.size(); ++s) {
      forward[s] = busy * (1 - backward_share) * slowness[s];
      backward[s] = busy * backward_share * slowness[s];
    }
  };
  const int64_t ranks = question.spread > 0 ? layout.dp : 1;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    set(rank);
    const double end = pipeline.play(forward, backward, nullptr);
    if (end > out.gradients_start) {
      out.gradients_start = end;
      out.slowest_rank = rank;
    }
  }
  set(out.slowest_rank);
  pipeline.play(forward, backward, &out.spans);
  double working = 0;
  for (const ReplaySpan& span : out.spans) working += span.end - span.start;
  out.waiting_share = 1 - working / (out.gradients_start * static_cast<double>(layout.pp));
  out.update_start = out.gradients_start + closed.gradients;
  out.step_seconds = out.update_start + closed.optimizer;
  return out;
}

std::string chrome_trace(const ReplayResult& result) {
  std::string text = "{\"traceEvents\": [";
  const char* comma = "";
  const auto add = [&](const std::string& name, const char* kind, int64_t row, double start, double end) {
    text += std::string(comma) + "\n{\"name\": " + json_string(name) + ", \"cat\": " + json_string(kind) +
            ", \"ph\": \"X\", \"pid\": 0, \"tid\": " + std::to_string(row) + ", \"ts\": " + json_number(1e6 * start) +
            ", \"dur\": " + json_number(1e6 * (end - start)) + "}";
    comma = ",";
  };
  int64_t stages = 0;
  for (const ReplaySpan& span : result.spans) {
    const char* kind = span.is_backward ? "backward" : "forward";
    add(std::string(span.is_backward ? "B" : "F") + std::to_string(span.micro_batch) +
            (span.chunk > 0 ? "." + std::to_string(span.chunk) : ""),
        kind, span.stage, span.start, span.end);
    stages = std::max(stages, span.stage + 1);
  }
  for (int64_t stage = 0; stage < stages; ++stage) {
    if (result.update_start > result.gradients_start) {
      add("sum of gradients", "communication", stage, result.gradients_start, result.update_start);
    }
    add("update", "optimizer", stage, result.update_start, result.step_seconds);
  }
  return text + "\n], \"displayTimeUnit\": \"ms\"}\n";
}

}  // namespace litespark
