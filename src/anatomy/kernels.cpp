// SPDX-License-Identifier: Apache-2.0
#include "anatomy/kernels.h"

#include <algorithm>

#include "anatomy/attention.h"
#include "anatomy/workspace.h"
#include "core/error.h"
#include "plan/tape_cost.h"
#include "train/step_timeline.h"

namespace litespark::anatomy {
namespace {

void add_to(KernelCost& cost, double seconds, const OpWork& work) {
  ++cost.num_ops;
  cost.seconds += seconds;
  cost.flops += work.matmul_flops() + work.attention_flops;
  cost.bytes += work.bytes;
}

KernelCost& cost_named(std::vector<KernelCost>& costs, const std::string& name) {
  const auto found = std::find_if(costs.begin(), costs.end(), [&](const KernelCost& one) { return one.name == name; });
  if (found != costs.end()) return *found;
  costs.push_back({.name = name});
  return costs.back();
}

/// Seconds of each op of one micro-batch.
std::vector<double> op_seconds(PreparedModel& model, StepTimeline& timeline, size_t num_ops) {
  timeline.begin();
  model.run();
  const SampledStep sample = timeline.end(1);
  std::vector<double> seconds;
  for (const TimeSpan& span : sample.spans) {
    if (!span.op.empty()) seconds.push_back(span.end_seconds - span.begin_seconds);
  }
  if (seconds.size() != num_ops) throw InternalError("kernels", "ops on the time line", seconds.size(), num_ops);
  return seconds;
}

struct Roof {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double arithmetic(const KernelCost& cost) const { return cost.flops / cost.seconds / flops_per_second; }
  double traffic(const KernelCost& cost) const { return cost.bytes / cost.seconds / bytes_per_second; }
};

Table roofline_table(const std::vector<KernelCost>& costs, double whole_seconds, const Roof& roof, Table table) {
  table.columns.insert(table.columns.end(),
                       {"ops", "time", "of the step", "GFLOP/s", "of the best", "GB/s", "of a copy", "held by"});
  for (const KernelCost& cost : costs) {
    const double arithmetic = roof.arithmetic(cost);
    const double traffic = roof.traffic(cost);
    table.rows.push_back({words(cost.name), quantity(cost.num_ops, "", 0), seconds_value(cost.seconds),
                          percent(cost.seconds / whole_seconds), quantity(cost.flops / cost.seconds / 1e9, "", 1),
                          percent(arithmetic), quantity(cost.bytes / cost.seconds / 1e9, "", 1), percent(traffic),
                          words(arithmetic > traffic ? "arithmetic" : "memory")});
  }
  return table;
}

/// Attention's forward as a library without a tiled kernel does it: two products a head with scores in memory between
/// them, which the softmax reads and writes at the speed of a copy.
double unfused_attention_seconds(Backend& backend, const MeasureOptions& options, const ModelSizes& sizes,
                                 const Roof& roof) {
  const int64_t length = sizes.length;
  const int64_t dim = sizes.hidden / sizes.heads;
  const double products = 2.0 * static_cast<double>(length * length * dim);
  const double scores = products / measure_matmul(backend, options, length, dim, length);
  const double values = products / measure_matmul(backend, options, length, length, dim);
  const double softmax =
      2.0 * static_cast<double>(length * length * dtype_bytes(options.compute)) / roof.bytes_per_second;
  return static_cast<double>(sizes.sequences * sizes.heads) * (scores + values + softmax);
}

Finding mlp_finding(const KernelCosts& costs, const Roof& roof) {
  const KernelCost mlp = costs.sum_of({"forward.gate_up", "forward.swiglu", "forward.down"});
  const KernelCost activation = costs.sum_of({"forward.swiglu"});
  Value ours = quantity(mlp.flops / mlp.seconds / 1e9, "GFLOP/s", 1);
  ours.text += ", " + percent(roof.arithmetic(mlp)).text + " of the best product";
  return {.key = "mlp",
          .what = "gate, up, SwiGLU and down, forward",
          .ours = ours,
          .claim = "L5",
          .published = "423 -> 798 TFLOP/s (more than any 16-bit product reaches on that part)",
          .advice = "SwiGLU as an op of its own takes " + percent(activation.seconds / mlp.seconds).text +
                    " of the MLP's forward: the most that fusing it into its products could win"};
}

std::vector<Finding> findings_of(const KernelCosts& costs, const Roof& roof, double unfused_seconds, int64_t layers) {
  const KernelCost positions =
      costs.sum_of({"forward.rope", "backward.rope", "forward.embedding", "backward.embedding"});
  const KernelCost attention = costs.sum_of({"forward.attention"});
  const KernelCost attention_back = costs.sum_of({"backward.attention"});
  const double attention_layer = attention.seconds / static_cast<double>(layers);
  double arithmetic_seconds = 0;
  for (const KernelCost& cost : costs.components) {
    if (cost.flops > 0) arithmetic_seconds += cost.seconds;
  }
  return {
      {.key = "matmul_ceiling", .what = "best product", .ours = quantity(roof.flops_per_second / 1e9, "GFLOP/s", 1)},
      {.key = "copy_ceiling", .what = "copy", .ours = quantity(roof.bytes_per_second / 1e9, "GB/s", 1)},
      {.key = "step_use",
       .what = "whole micro-batch, of the best product",
       .ours = percent(roof.arithmetic(costs.whole)),
       .claim = "C18",
       .published = "23 % FLOP use, 89 % after FlashAttention-2"},
      {.key = "positions_bytes",
       .what = "rotary positions and embedding, bytes moved",
       .ours = bytes_value(positions.bytes),
       .claim = "C18",
       .published = "1.8 GB, 0.9 GB after FlashAttention-2",
       .advice = "they take " + percent(positions.seconds / costs.whole.seconds).text +
                 " of this micro-batch: look at the rows below with the largest share of the step and the smallest "
                 "of either ceiling"},
      {.key = "attention_use",
       .what = "attention of the best product, forward and backward",
       .ours = {.text =
                    percent(roof.arithmetic(attention)).text + " and " + percent(roof.arithmetic(attention_back)).text,
                .number = roof.arithmetic(attention),
                .unit = "share"},
       .claim = "L2",
       .published = "compute-unit use 45 % -> 82 %"},
      {.key = "attention_unfused",
       .what = "attention forward through the library's products, scores in memory",
       .ours = {.text = seconds_value(unfused_seconds).text + " a layer, ours " + seconds_value(attention_layer).text,
                .number = unfused_seconds / attention_layer,
                .unit = "x"}},
      mlp_finding(costs, roof),
      {.key = "outside_products",
       .what = "time in ops without products",
       .ours = percent(1 - arithmetic_seconds / costs.whole.seconds),
       .claim = "L0",
       .published = "tensor cores idle over 60 % of the time"}};
}

Table inner_table(const Ceilings& ceilings) {
  Table table{.key = "inner_dimension",
              .title = "products by their inner dimension, as the planner takes them: half at " +
                       quantity(ceilings.matmul_half_k(), "", 0).text,
              .columns = {"K", "GFLOP/s", "of the best"},
              .rows = {}};
  for (const InnerRate& rate : ceilings.matmul) {
    table.rows.push_back({quantity(static_cast<double>(rate.inner), "", 0),
                          quantity(rate.flops_per_second / 1e9, "", 1),
                          percent(rate.flops_per_second / ceilings.matmul_flops_per_second())});
  }
  return table;
}

}  // namespace

KernelCost KernelCosts::sum_of(std::initializer_list<std::string_view> scopes) const {
  KernelCost sum;
  for (const KernelCost& cost : components) {
    if (std::find(scopes.begin(), scopes.end(), std::string_view(cost.name)) == scopes.end()) continue;
    sum.num_ops += cost.num_ops;
    sum.seconds += cost.seconds;
    sum.flops += cost.flops;
    sum.bytes += cost.bytes;
  }
  return sum;
}

KernelCosts measure_kernels(PreparedModel& model, int num_runs) {
  Executor& executor = model.executor();
  const std::vector<TapeEntry>& entries = executor.program().tape(Phase::kTrainFirst)->entries();
  StepTimeline timeline(executor.backend().make_timer());
  model.run();  // without a clock: kernels are loaded, pages touched
  std::vector<std::vector<double>> seconds(entries.size());
  executor.set_observer(&timeline);
  for (int run = 0; run < num_runs; ++run) {
    const std::vector<double> once = op_seconds(model, timeline, entries.size());
    for (size_t i = 0; i < once.size(); ++i) seconds[i].push_back(once[i]);
  }
  executor.set_observer(nullptr);
  KernelCosts costs;
  costs.whole.name = "micro-batch";
  for (size_t i = 0; i < entries.size(); ++i) {
    const TapeEntry& entry = entries[i];
    const OpWork work = op_work(entry.op, executor.program().tensors);
    const double median = median_of(seconds[i]);
    add_to(cost_named(costs.components, std::string(entry.scope)), median, work);
    add_to(costs.whole, median, work);
    const std::string layer = entry.layer < 0 ? "outside" : "layer " + std::to_string(entry.layer);
    add_to(cost_named(costs.layers, layer), median, work);
  }
  return costs;
}

Chapter kernels_chapter(Backend& backend, const MeasureOptions& options, const KernelSizes& sizes, Hardware* measured) {
  const Ceilings ceilings = measure_ceilings(backend, options, sizes.ceilings);
  const KernelCosts costs = [&] {
    PreparedModel model(backend, sizes.model, train_options(sizes.model, options.compute));
    return measure_kernels(model, sizes.num_runs);
  }();
  // A product of the model may be faster than those of the curve.
  Roof roof{.flops_per_second = ceilings.matmul_flops_per_second(), .bytes_per_second = ceilings.bytes_per_second};
  if (measured != nullptr) {
    put_ceilings(ceilings, *measured);
    put_attention(backend, options, sizes.ceilings, roof.flops_per_second, *measured);
  }
  Chapter chapter{.name = "kernels", .title = "every op of a step over what this machine reaches at best"};
  chapter.setup = {{"model", sizes.model.text()}, {"compute", std::string(dtype_name(options.compute))}};
  const double unfused = unfused_attention_seconds(backend, options, sizes.model, roof);
  chapter.findings = findings_of(costs, roof, unfused, sizes.model.layers);
  std::vector<KernelCost> components = costs.components;
  components.push_back(costs.whole);
  chapter.tables = {
      roofline_table(
          components, costs.whole.seconds, roof,
          {.key = "components", .title = "one micro-batch by component, all layers", .columns = {"component"}}),
      roofline_table(costs.layers, costs.whole.seconds, roof,
                     {.key = "layers", .title = "one micro-batch by layer", .columns = {"layer"}}),
      inner_table(ceilings)};
  return chapter;
}

}  // namespace litespark::anatomy
