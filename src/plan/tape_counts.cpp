// SPDX-License-Identifier: Apache-2.0
#include "plan/tape_counts.h"

#include "core/error.h"
#include "core/json_text.h"
#include "core/text_table.h"
#include "plan/tape_cost.h"

namespace litespark {
namespace {

std::string giga(double value) {
  return fixed_text(value / 1e9, 2);
}

}  // namespace

void WorkCounter::add(const TapeEntry& entry) {
  const std::string_view scope = entry.scope;
  const bool is_backward = scope.starts_with("backward.");
  ComponentCounts& counts = components_[std::string(scope.substr(scope.find('.') + 1))];
  const OpWork work = op_work(entry.op, tensors_);
  const double flops = work.matmul_flops() + work.attention_flops;
  counts.bytes += work.bytes;
  if (is_backward) {
    counts.backward_flops += flops;
  } else if (entry.is_recomputed) {
    counts.recomputed_flops += flops;
  } else {
    counts.forward_flops += flops;
  }
}

ComponentCounts WorkCounter::total() const {
  ComponentCounts sum;
  for (const auto& [name, counts] : components_) {
    sum.forward_flops += counts.forward_flops;
    sum.backward_flops += counts.backward_flops;
    sum.recomputed_flops += counts.recomputed_flops;
    sum.bytes += counts.bytes;
  }
  return sum;
}

WorkCounter count_micro_batch(const Program& program) {
  WorkCounter counter(program.tensors);
  const Tape* const tape = program.tape(Phase::kTrainFirst);
  if (tape == nullptr) throw InternalError("plan", "a program without training has no micro-batch to count");
  for (const TapeEntry& entry : tape->entries()) counter.add(entry);
  return counter;
}

std::string counts_text(const WorkCounter& counter) {
  TextTable table({"one micro-batch, exactly", "forward GFLOP", "backward GFLOP", "recomputed GFLOP", "moved"});
  const auto add = [&](const std::string& name, const ComponentCounts& counts) {
    table.add({name, giga(counts.forward_flops), giga(counts.backward_flops), giga(counts.recomputed_flops),
               bytes_text(static_cast<int64_t>(counts.bytes))});
  };
  for (const auto& [name, counts] : counter.components()) add(name, counts);
  table.add_rule();
  add("sum", counter.total());
  return table.to_string();
}

std::string counts_json(const WorkCounter& counter) {
  std::string text = "{";
  const char* comma = "";
  const auto add = [&](const std::string& name, const ComponentCounts& counts) {
    text += comma + json_string(name) + ": {\"forward_flops\": " + json_number(counts.forward_flops) +
            ", \"backward_flops\": " + json_number(counts.backward_flops) +
            ", \"recomputed_flops\": " + json_number(counts.recomputed_flops) +
            ", \"bytes\": " + json_number(counts.bytes) + "}";
    comma = ", ";
  };
  for (const auto& [name, counts] : counter.components()) add(name, counts);
  add("sum", counter.total());
  return text + "}";
}

}  // namespace litespark
