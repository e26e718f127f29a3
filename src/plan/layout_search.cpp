// SPDX-License-Identifier: Apache-2.0
#include "plan/layout_search.h"

#include <algorithm>

#include "core/error.h"
#include "core/json_text.h"
#include "core/text_table.h"
#include "plan/energy_cost.h"
#include "plan/layout_memory.h"

namespace litespark {
namespace {

std::vector<int64_t> divisors(int64_t number, int64_t at_most) {
  std::vector<int64_t> out;
  for (int64_t i = 1; i <= std::min(number, at_most); ++i) {
    if (number % i == 0) out.push_back(i);
  }
  return out;
}

double goal_value(const SearchPlan& plan, SearchGoal goal) {
  // Devices are rented by the hour, so the cheapest plan on given devices is the fastest one.
  return goal == SearchGoal::kGreenest ? plan.joules_a_step : plan.step.total;
}

class Search {
 public:
  explicit Search(const SearchQuestion& question) : question_(question) {}

  SearchResult run() {
    const int64_t most_tensor = question_.hardware.devices_a_node;
    for (const int64_t tp : divisors(question_.gpus, most_tensor)) {
      for (const int64_t pp : divisors(question_.gpus / tp, question_.workload.shape.layers)) {
        for (const int64_t cp : divisors(question_.gpus / tp / pp, 16)) {
          try_layout({.dp = question_.gpus / tp / pp / cp, .tp = tp, .pp = pp, .cp = cp});
        }
      }
    }
    const auto better = [&](const SearchPlan& a, const SearchPlan& b) {
      return goal_value(a, question_.goal) < goal_value(b, question_.goal);
    };
    std::stable_sort(result_.plans.begin(), result_.plans.end(), better);
    if (result_.plans.size() > question_.keep) result_.plans.resize(question_.keep);
    return std::move(result_);
  }

 private:
  void rule_out(const std::string& reason) { ++result_.why_not[reason]; }

  void try_layout(Layout layout) {
    // Context parallelism splits sequences, not batches: of no use while one fits a device's share.
    if (layout.cp > 1 && question_.workload.seq_len / layout.cp < 1024) {
      rule_out("cp leaves under 1024 tokens a device");
      return;
    }
    const TransformerShape& shape = question_.workload.shape;
    if (shape.experts) {
      for (const int64_t ep : divisors(shape.experts->experts, layout.data_ranks())) {
        layout.ep = ep;
        try_chunks(layout);
      }
      return;
    }
    try_chunks(layout);
  }

  void try_chunks(Layout layout) {
    const int64_t layers = question_.workload.shape.layers;
    for (const int64_t chunks : {1, 2, 4}) {
      if (chunks > 1 && (layout.pp == 1 || layers % (layout.pp * chunks) != 0)) continue;
      layout.vpp = chunks;
      for (int64_t micro = 1; micro <= 32; micro *= 2) try_batch(layout, micro);
    }
  }

  void try_batch(const Layout& layout, int64_t micro_batch) {
    Workload workload = question_.workload;
    workload.layout = layout;
    workload.micro_batch = micro_batch;
    ++result_.tried;
    try {
      check_workload(workload);
    } catch (const ConfigError& error) {
      // "[tp] does not divide the attention heads; got 3, ...": without the numbers reasons can be counted.
      const std::string text = error.what();
      rule_out(text.substr(0, text.find(';')));
      return;
    }
    for (const LayerRecompute recompute : {LayerRecompute::kNone, LayerRecompute::kFull}) {
      workload.recompute = recompute;
      try_precision(workload);
    }
  }

  void try_precision(Workload workload) {
    take(workload);
    if (!question_.tries_fp8 || question_.hardware.fp8_tflops <= 0) return;
    workload.precision = OperandPrecision::kFP8;
    take(workload);
  }

  void take(const Workload& workload) {
    SearchPlan plan{.workload = workload};
    plan.memory_bytes = layout_memory(workload, question_.software).total();
    const bool fits = plan.memory_bytes <= question_.memory_share * question_.hardware.memory_bytes();
    if (!fits) {
      rule_out("memory");
      if (!result_.has_smallest || plan.memory_bytes < result_.smallest.memory_bytes) result_.smallest = plan;
      result_.has_smallest = true;
      return;
    }
    plan.step = step_seconds(workload, question_.software, question_.hardware);
    const double busy = busy_share(plan.step);
    const double watts = device_watts(question_.hardware, busy) + node_watts_beside(question_.hardware, busy);
    plan.joules_a_step = watts * plan.step.total * static_cast<double>(question_.gpus);
    result_.plans.push_back(plan);
  }

  const SearchQuestion& question_;
  SearchResult result_;
};

const char* recompute_name(LayerRecompute recompute) {
  if (recompute == LayerRecompute::kNone) return "none";
  return recompute == LayerRecompute::kFull ? "block" : "selective";
}

std::string why_not_text(const SearchResult& result, const SearchQuestion& question) {
  std::string text;
  for (const auto& [reason, count] : result.why_not) {
    text += "  " + std::to_string(count) + " ruled out: " + reason + "\n";
  }
  if (result.has_smallest) {
    text += "  the smallest that does not fit takes " + bytes_text(static_cast<int64_t>(result.smallest.memory_bytes)) +
            " (" + result.smallest.workload.layout.text() + ", micro_batch " +
            std::to_string(result.smallest.workload.micro_batch) + ", recompute " +
            recompute_name(result.smallest.workload.recompute) + ") of " +
            bytes_text(static_cast<int64_t>(question.memory_share * question.hardware.memory_bytes())) + "\n";
  }
  return text;
}

}  // namespace

SearchResult search_layouts(const SearchQuestion& question) {
  question.hardware.validate();
  if (question.gpus < 1) throw ConfigError("gpus", "must be positive", question.gpus, "at least 1");
  Workload alone = question.workload;
  alone.layout = {};
  alone.micro_batch = 1;
  check_workload(alone);
  return Search(question).run();
}

std::string search_text(const SearchResult& result, const SearchQuestion& question) {
  std::string text = std::to_string(result.tried) + " combinations on " + std::to_string(question.gpus) + " x " +
                     question.hardware.name + "\n";
  if (result.plans.empty()) {
    text += "nothing fits\n";
  } else {
    TextTable table({"layout", "micro_batch", "recompute", "step", "tokens/s", "TFLOP/s", "memory", "J a token"});
    for (const SearchPlan& plan : result.plans) {
      table.add({plan.workload.layout.text(), std::to_string(plan.workload.micro_batch),
                 recompute_name(plan.workload.recompute), fixed_text(1000 * plan.step.total) + " ms",
                 fixed_text(plan.step.tokens_per_second, 0), fixed_text(plan.step.model_tflops),
                 bytes_text(static_cast<int64_t>(plan.memory_bytes)),
                 fixed_text(plan.joules_a_step / plan.workload.step_tokens(), 4)});
    }
    text += table.to_string();
  }
  return text + why_not_text(result, question);
}

std::string search_json(const SearchResult& result) {
  std::string text = "{\"tried\": " + std::to_string(result.tried) + ", \"plans\": [";
  const char* comma = "";
  for (const SearchPlan& plan : result.plans) {
    const Layout& layout = plan.workload.layout;
    text += std::string(comma) + "{\"dp\": " + std::to_string(layout.dp) + ", \"tp\": " + std::to_string(layout.tp) +
            ", \"pp\": " + std::to_string(layout.pp) + ", \"cp\": " + std::to_string(layout.cp) +
            ", \"ep\": " + std::to_string(layout.ep) + ", \"vpp\": " + std::to_string(layout.vpp) +
            ", \"micro_batch\": " + std::to_string(plan.workload.micro_batch) +
            ", \"recompute\": " + json_string(recompute_name(plan.workload.recompute)) +
            ", \"step_seconds\": " + json_number(plan.step.total) +
            ", \"memory_bytes\": " + json_number(plan.memory_bytes) +
            ", \"joules_a_step\": " + json_number(plan.joules_a_step) + "}";
    comma = ", ";
  }
  text += "], \"why_not\": {";
  comma = "";
  for (const auto& [reason, count] : result.why_not) {
    text += comma + json_string(reason) + ": " + std::to_string(count);
    comma = ", ";
  }
  return text + "}}";
}

}  // namespace litespark
