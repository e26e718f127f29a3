// SPDX-License-Identifier: Apache-2.0
#include "plan/row_workload.h"

#include <algorithm>
#include <array>

#include "core/checked.h"
#include "core/error.h"
#include "plan/layout_memory.h"
#include "plan/row_text.h"
#include "plan/step_time.h"

namespace litespark {
namespace {

/// Models whose feed-forward layer has two matrices: GPT and its relatives. Others are taken for gated ones, unless
/// the width is exactly four times the hidden size with as many key heads as query heads.
bool has_gate(const ValidationRow& row) {
  const std::string model = lower_text(row.model);
  if (contains_any_text(model,
                        {"gpt", "mpt", "opt-", "bloom", "bert", "falcon", "nemotron", "turing", "pythia", "t5"})) {
    return contains_text(model, "gpt-oss");
  }
  if (contains_any_text(model, {"llama", "mistral", "mixtral", "qwen", "deepseek", "gemma", "grok", "phi"}))
    return true;
  return !(*row.ffn == 4 * *row.hidden && row.kv_heads.value_or(*row.heads) == *row.heads);
}

/// "" or the first column of the shape that the source does not state.
std::string missing_shape(const ValidationRow& row) {
  struct Need {
    const char* name;
    bool is_there;
  };
  const std::array needs = {Need{"layers", row.layers.has_value()}, Need{"hidden", row.hidden.has_value()},
                            Need{"heads", row.heads.has_value()},   Need{"ffn", row.ffn.has_value()},
                            Need{"vocab", row.vocab.has_value()},   Need{"seqlen", row.seqlen.has_value()}};
  std::string missing;
  for (const Need& need : needs) {
    if (!need.is_there) missing += (missing.empty() ? "" : ", ") + std::string(need.name);
  }
  return missing;
}

TransformerShape shape_of_row(const ValidationRow& row) {
  TransformerShape shape{.layers = *row.layers,
                         .hidden = *row.hidden,
                         .heads = *row.heads,
                         .kv_heads = row.kv_heads.value_or(*row.heads),
                         .head_dim = std::max<int64_t>(1, *row.hidden / *row.heads),
                         .ffn = *row.ffn,
                         .vocab = *row.vocab,
                         .gated = has_gate(row),
                         .tied = false,
                         .experts = {},
                         .latent = {}};
  const std::string model = lower_text(row.model);
  shape.tied = contains_any_text(model, {"gpt", "mpt", "opt-", "bloom"});
  complete_from_name(shape, row.model);
  return shape;
}

LayerRecompute recompute_of_row(const ValidationRow& row) {
  const std::string text = lower_text(row.recompute);
  if (contains_text(text, "full") || contains_text(text, "block")) return LayerRecompute::kFull;
  if (contains_text(text, "selective")) return LayerRecompute::kSelective;
  return LayerRecompute::kNone;
}

bool is_sequence_parallel(const ValidationRow& row, int year) {
  const std::string recompute = lower_text(row.recompute);
  const std::string remarks = lower_text(row.remarks);
  if (contains_text(recompute, "no sp")) return false;
  if (contains_text(recompute, "+sp")) return true;
  if (contains_any_text(remarks, {"no sequence parallel", "tensor parallel only", "tp-only", "tp only"})) return false;
  if (contains_any_text(remarks, {"sequence parallel", "tp+sp"})) return true;
  // It was published in 2022.
  return year == 0 || year >= 2022;
}

Layout layout_of_row(const ValidationRow& row, int year) {
  Layout layout;
  layout.tp = row.tp.value_or(1);
  layout.pp = row.pp.value_or(1);
  layout.ep = row.ep.value_or(1);
  layout.vpp = layout.pp > 1 ? row.vpp.value_or(1) : 1;
  const std::string remarks = lower_text(row.remarks);
  const auto others = checked_mul(layout.tp, layout.pp);
  const auto stated_cp = number_after(remarks, "cp=");
  layout.cp = static_cast<int64_t>(std::clamp(stated_cp.value_or(1), 1.0, 1e6));
  const auto inner = others ? checked_mul(*others, layout.cp) : others;
  if (!row.gpus || !inner) {
    layout.dp = row.dp.value_or(1);
  } else if (!row.dp || contains_any_text(remarks, {"hsdp", "replica"})) {
    // Shards are counted in dp, their replicas in nothing.
    layout.dp = std::max<int64_t>(1, *row.gpus / *inner);
  } else {
    layout.dp = *row.dp;
    const auto all = checked_mul(*inner, layout.dp);
    // What the other degrees leave is context parallelism, for which there is no column.
    if (!stated_cp && all && *row.gpus % *all == 0) layout.cp = *row.gpus / *all;
  }
  layout.sequence_parallel = is_sequence_parallel(row, year);
  return layout;
}

/// The fastest power of two that the batch allows and that fits: what somebody who tuned the run would have taken.
int64_t chosen_micro_batch(RowWorkload row) {
  constexpr int64_t kLargest = 16;
  int64_t best = 1;
  double best_seconds = 1e300;
  for (int64_t size = 1; size <= kLargest; size *= 2) {
    if (row.workload.global_batch % (size * row.workload.layout.dp) != 0) break;
    row.workload.micro_batch = size;
    if (size > 1 && layout_memory(row.workload, row.software).total() > 0.85 * row.hardware.memory_bytes()) break;
    const double seconds = step_seconds(row.workload, row.software, row.hardware).total;
    if (seconds < best_seconds) {
      best_seconds = seconds;
      best = size;
    }
  }
  return best;
}

std::string layout_contradiction(const ValidationRow& row, const Layout& layout) {
  if (!row.gpus) return "gpus is not stated";
  if (layout.gpus() == *row.gpus) return {};
  return "tp x pp x dp x cp is " + std::to_string(layout.gpus()) + ", not the " + std::to_string(*row.gpus) +
         " gpus of the row";
}

}  // namespace

RowWorkload workload_of_row(const ValidationRow& row) {
  RowWorkload out;
  const auto exclude = [&](std::string reason) {
    out.exclusion = std::move(reason);
    return out;
  };
  if (!row.defect.empty()) return exclude(row.defect);
  out.hardware = hardware_in_text(row.hardware);
  if (out.hardware.name.empty()) {
    return exclude("hardware \"" + row.hardware + "\" is none that is known: its peak would be a guess");
  }
  const std::string missing = missing_shape(row);
  if (!missing.empty()) return exclude("the source does not state the model's " + missing);
  if (contains_any_text(lower_text(row.model),
                        {"mamba", "nemotron-h", "jamba", "rwkv", "hyena", "diffusion", "flux"})) {
    return exclude("the model \"" + row.model + "\" has layers that are no decoder's of attention and matrices");
  }
  const int year = year_in_text(row.source).value_or(0);
  out.software = software_in_text(row.source, row.remarks, row.precision);
  Workload& workload = out.workload;
  workload.shape = shape_of_row(row);
  workload.seq_len = *row.seqlen;
  workload.recompute = recompute_of_row(row);
  const std::string precision = lower_text(row.precision);
  const bool is_fp8 = contains_text(precision, "fp8") && !contains_any_text(precision, {"not stated", " or "});
  workload.precision = is_fp8 ? OperandPrecision::kFP8 : OperandPrecision::kBF16;
  workload.layout = layout_of_row(row, year);
  const std::string contradiction = layout_contradiction(row, workload.layout);
  if (!contradiction.empty()) return exclude(contradiction);
  if (!row.global_batch && workload.layout.pp > 1) return exclude("a pipeline's global_batch is not stated");
  workload.global_batch = row.global_batch.value_or(row.micro_batch.value_or(1) * workload.layout.dp);
  try {
    workload.micro_batch = row.micro_batch.value_or(1);
    check_workload(workload);
    if (!row.micro_batch) workload.micro_batch = chosen_micro_batch(out);
  } catch (const ConfigError& error) {
    return exclude(error.what());
  }
  return out;
}

}  // namespace litespark
