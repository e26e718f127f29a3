// SPDX-License-Identifier: Apache-2.0
#include "plan/row_prediction.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "plan/collective_time.h"
#include "plan/layout_memory.h"
#include "plan/row_text.h"
#include "plan/row_workload.h"
#include "plan/step_time.h"

namespace litespark {
namespace {

constexpr double kGiB = 1073741824.0;

/// FLOPs of a step as the row's source counts them: all pairs of attention in older work, half of them where it says
/// "causal"; with everything recomputed where it counts hardware FLOPs (Narayanan et al. 2021, equation 3).
double counted_flops(const ValidationRow& row, const Workload& workload) {
  const TransformerShape& shape = workload.shape;
  const std::string remarks = lower_text(row.remarks);
  const bool is_causal = (contains_text(remarks, "causal") && !contains_text(remarks, "non-causal")) ||
                         contains_text(lower_text(row.source), "megatron-bridge");
  const double attention = (is_causal ? 6 : 12) * real(shape.layers) * shape.score_features() * real(workload.seq_len);
  const double head = 6 * shape.embedding_parameters();
  double a_token = 6 * shape.active_parameters() + attention;
  const bool counts_recompute = contains_text(row.metric, "hw_") || contains_text(row.metric, "hfu");
  if (counts_recompute && workload.recompute == LayerRecompute::kFull) a_token += (a_token - head) / 3;
  return a_token * workload.step_tokens();
}

double unit_seconds(const std::string& unit) {
  if (unit == "ms") return 1e-3;
  if (unit == "us") return 1e-6;
  if (unit == "min") return 60;
  return 1;
}

void predict_step(RowPrediction& out, const RowWorkload& what, double slowness) {
  const ValidationRow& row = *out.row;
  const StepSeconds step = step_seconds(what.workload, what.software, what.hardware, slowness);
  const double gpus = real(what.workload.layout.gpus());
  const std::string metric = lower_text(row.metric);
  if (contains_text(metric, "tflop") || contains_text(lower_text(row.unit), "flop/s")) {
    out.predicted = counted_flops(row, what.workload) / step.total / gpus / 1e12;
    if (!contains_text(metric, "per_gpu") && contains_text(metric, "total")) out.predicted *= gpus;
  } else if (contains_text(metric, "token")) {
    out.predicted = step.tokens_per_second / (contains_text(metric, "per_gpu") ? gpus : 1);
  } else if (contains_text(metric, "sample") || contains_text(metric, "sequences")) {
    out.predicted = real(what.workload.global_batch) / step.total / (contains_text(metric, "per_gpu") ? gpus : 1);
  } else {
    out.is_time = true;
    out.predicted = step.total / unit_seconds(lower_text(row.unit));
  }
}

double in_unit(double bytes, const std::string& unit) {
  const std::string lower = lower_text(unit);
  if (lower == "bytes" || lower == "b") return bytes;
  if (lower == "gb") return bytes / 1e9;
  if (lower == "mib") return bytes / 1048576.0;
  if (lower == "mb") return bytes / 1e6;
  return bytes / kGiB;
}

void predict_memory(RowPrediction& out, const RowWorkload& what) {
  const ValidationRow& row = *out.row;
  Workload workload = what.workload;
  const LayoutMemory memory = layout_memory(workload, what.software);
  const std::string metric = lower_text(row.metric);
  if (contains_text(metric, "rel_to")) {
    Workload baseline = workload;
    baseline.recompute = LayerRecompute::kNone;
    baseline.layout.sequence_parallel = false;
    out.predicted = 100 * memory.activations / layout_memory(baseline, what.software).activations;
  } else if (contains_text(metric, "activation")) {
    out.predicted = in_unit(memory.activations, row.unit);
  } else if (contains_text(metric, "params") || contains_text(metric, "state") || contains_text(metric, "opt")) {
    out.predicted = in_unit(memory.states(), row.unit);
  } else {
    out.predicted = in_unit(memory.total(), row.unit);
  }
}

/// One layer alone, forward and backward.
void predict_layer(RowPrediction& out, const RowWorkload& what, double slowness) {
  const LayerSeconds layer = layer_seconds(what.workload, what.software, what.hardware, false);
  out.is_time = true;
  out.predicted = slowness * what.software.stretch * layer.total() / unit_seconds(lower_text(out.row->unit));
}

/// "busbw@64MiB allgather": the size behind the sign.
std::optional<double> size_in_metric(const std::string& metric) {
  const auto scaled = [&](const char* unit, double factor) -> std::optional<double> {
    const auto value = number_before(metric, unit);
    return value ? std::optional(*value * factor) : std::nullopt;
  };
  if (const auto size = scaled("gib", kGiB)) return size;
  if (const auto size = scaled("mib", 1048576.0)) return size;
  if (const auto size = scaled("kib", 1024.0)) return size;
  if (contains_text(metric, "max")) return 16 * kGiB;
  return std::nullopt;
}

void predict_bandwidth(RowPrediction& out) {
  const ValidationRow& row = *out.row;
  const std::string metric = lower_text(row.metric);
  const Hardware hardware = hardware_in_text(row.hardware);
  const auto size = size_in_metric(metric);
  if (hardware.name.empty()) {
    out.exclusion = "hardware \"" + row.hardware + "\" is none that is known";
  } else if (!row.gpus) {
    out.exclusion = "gpus is not stated";
  } else if (!size) {
    out.exclusion = "the metric \"" + row.metric + "\" names no size";
  } else {
    const std::string text = metric + " " + lower_text(row.remarks);
    Collective kind = Collective::kAllReduce;
    if (contains_any_text(text, {"allgather", "all-gather", "all_gather"})) kind = Collective::kAllGather;
    if (contains_any_text(text, {"reducescatter", "reduce-scatter", "reduce_scatter"}))
      kind = Collective::kReduceScatter;
    if (contains_any_text(text, {"alltoall", "all-to-all"})) kind = Collective::kAllToAll;
    const Group group = strided_group(*row.gpus, 1, hardware);
    out.predicted = bus_bandwidth(kind, *size, group, hardware) / 1e9;
    if (contains_text(metric, "ring")) out.predicted = std::min(out.predicted, ring_rate(group, hardware) / 1e9);
  }
}

/// Hours that the same source states for the same model.
std::optional<double> stated_hours(const ValidationRow& row, const ValidationFile& file) {
  for (const ValidationRow& other : file.rows) {
    if (other.source == row.source && other.model == row.model && other.metric == "gpu_hours") return other.value;
  }
  return std::nullopt;
}

void predict_energy(RowPrediction& out, const ValidationFile& file) {
  const ValidationRow& row = *out.row;
  if (contains_text(row.metric, "hours")) {
    out.exclusion = "device-hours are what energy is computed from, not a prediction";
    return;
  }
  const Hardware hardware = hardware_in_text(row.hardware);
  if (contains_text(row.metric, "power")) {
    // A node in training draws about 0.82 of its rating (Latif et al. 2025, one node of eight H100).
    if (hardware.name.empty() || hardware.node_watts <= 0) {
      out.exclusion = "the node's rated power is not known";
    } else {
      out.predicted = 0.82 * hardware.node_watts / (row.unit == "kW" ? 1e3 : 1);
    }
    return;
  }
  const auto hours = stated_hours(row, file);
  if (!hours || hardware.name.empty()) {
    out.exclusion = hours ? "hardware is not known" : "the source states no device-hours for this model";
    return;
  }
  const std::string text = lower_text(row.remarks) + " " + lower_text(row.hardware);
  // 1.1 is what sources of this kind assume; theirs comes first when they say it.
  const double pue = number_after(text, "pue ").value_or(1.1);
  const double kwh = *hours * hardware.watts / 1000 * pue;
  if (contains_text(row.metric, "emission")) {
    constexpr double kUnitedStates = 0.369;  // kg a kWh, 2023
    out.predicted = kwh * number_before(text, "kg/kwh").value_or(kUnitedStates) / 1000;
  } else {
    out.predicted = kwh / (row.unit == "kWh" ? 1 : 1000);
  }
}

}  // namespace

RowPrediction predict_row(const ValidationRow& row, const ValidationFile& file, const SlownessByDevice& slowness) {
  RowPrediction out;
  out.row = &row;
  out.group = group_of(row);
  if (!row.defect.empty() || !row.value) {
    out.exclusion = row.defect.empty() ? "value is blank" : row.defect;
    return out;
  }
  if (!(*row.value > 0)) {
    out.exclusion = "value is not above 0";
    return out;
  }
  if (out.group == ValidationGroup::kEnergy || out.group == ValidationGroup::kBandwidth) {
    out.group == ValidationGroup::kEnergy ? predict_energy(out, file) : predict_bandwidth(out);
    return out;
  }
  const RowWorkload what = workload_of_row(row);
  out.device = what.hardware.name;
  out.exclusion = what.exclusion;
  if (!out.exclusion.empty()) return out;
  out.is_one_node = what.workload.layout.gpus() <= what.hardware.devices_a_node;
  const auto found = slowness.find(out.device);
  const double factor = found == slowness.end() ? 1 : found->second;
  if (out.group == ValidationGroup::kStepTime) {
    predict_step(out, what, factor);
  } else if (out.group == ValidationGroup::kMemory) {
    predict_memory(out, what);
  } else if (contains_text(row.metric, "layer") && contains_text(row.metric, "time")) {
    predict_layer(out, what, factor);
  } else if (contains_text(row.metric, "mfu")) {
    const StepSeconds step = step_seconds(what.workload, what.software, what.hardware, factor);
    out.predicted = 100 * counted_flops(row, what.workload) / step.total / real(what.workload.layout.gpus()) /
                    what.hardware.peak_flops(what.workload.precision == OperandPrecision::kFP8);
  } else {
    out.exclusion = "the metric \"" + row.metric + "\" is not predicted";
  }
  return out;
}

}  // namespace litespark
