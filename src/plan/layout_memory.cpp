// SPDX-License-Identifier: Apache-2.0
#include "plan/layout_memory.h"

#include <algorithm>

#include "core/checked.h"

namespace litespark {
namespace {

/// Rounding of blocks, workspaces of libraries. An estimate that is too small ends a run, so it leans to the large
/// side.
constexpr double kReserve = 0.01;

/// Bytes a token: `whole` on every rank of a tensor-parallel group unless sequences are split, `split` shared by them.
struct TokenBytes {
  double whole = 0;
  double split = 0;
};

double feed_forward_width(const TransformerShape& shape, bool has_experts) {
  if (!shape.experts) return real(shape.ffn);
  return real(has_experts ? shape.experts->shared * shape.experts->ffn : shape.experts->dense_ffn);
}

/// Korthikanti et al. 2022 (arXiv:2205.05198), equations 1 to 4: 34 + 5 a s / h bytes for each of s b h elements.
TokenBytes early_layer(const Workload& workload) {
  const TransformerShape& shape = workload.shape;
  const double c = real(shape.hidden);
  TokenBytes bytes = {10 * c, 8 * c + 4 * real(shape.ffn)};
  if (workload.recompute == LayerRecompute::kNone) bytes.split += 5 * real(shape.heads) * real(workload.seq_len);
  return bytes;
}

/// Inputs of norms and matrices, queries, keys, values, attention's output, the activation's input.
TokenBytes fused_layer(const Workload& workload, bool has_experts) {
  const TransformerShape& shape = workload.shape;
  const double c = real(shape.hidden);
  // An 8-bit matrix keeps its input in 8 bits.
  const double input = workload.precision == OperandPrecision::kFP8 ? 1 : 2;
  const double ffn = feed_forward_width(shape, has_experts);
  const double up = shape.gated ? 4 : 2;
  TokenBytes bytes;
  bytes.whole = (4 + 2 * input) * c;
  bytes.split = (up + input) * ffn;
  const double q = shape.query_features();
  if (shape.latent) {
    const LatentShape& l = *shape.latent;
    const double values = real(shape.heads) * real(l.value);
    bytes.split += 4 * q + 4 * values;
    bytes.whole += 4 * real(l.query_rank) + 4 * real(l.kv_rank) + 2 * real(l.rotary);
  } else {
    bytes.split += 4 * q + 4 * shape.kv_features() + (input < 2 ? q : 0);
  }
  if (has_experts) {
    bytes.split += real(shape.experts->active) * ((input + 2) * c + (up + input) * real(shape.experts->ffn));
  }
  return bytes;
}

/// Without fused kernels: norms keep two 32-bit copies, the activation one more array.
TokenBytes eager_layer(const Workload& workload, bool has_experts) {
  TokenBytes bytes = fused_layer(workload, has_experts);
  bytes.whole += 16 * real(workload.shape.hidden);
  bytes.split += 2 * feed_forward_width(workload.shape, has_experts);
  return bytes;
}

TokenBytes kept_by_layer(const Workload& workload, const Software& software, bool has_experts) {
  const TransformerShape& shape = workload.shape;
  const double c = real(shape.hidden);
  if (workload.recompute == LayerRecompute::kFull) return {2 * c, 0};
  if (software.attention == AttentionKernel::kUnfused) return early_layer(workload);
  if (workload.recompute == LayerRecompute::kSelective && software.saves_every_second_matmul) {
    // The block's input, attention's output, and of seven products q, v, gate and down.
    const double ffn = feed_forward_width(shape, has_experts);
    return {4 * c, 4 * shape.query_features() + 2 * shape.kv_features() + 2 * ffn};
  }
  return software.fuses_pointwise ? fused_layer(workload, has_experts) : eager_layer(workload, has_experts);
}

double on_rank(const TokenBytes& bytes, const Workload& workload) {
  const double t = real(workload.layout.tp);
  const double whole = workload.layout.sequence_parallel ? bytes.whole / t : bytes.whole;
  return workload.rank_tokens() * (whole + bytes.split / t);
}

/// Parameters of one rank of a stage of `layers` layers, routed experts apart.
struct RankParameters {
  double common = 0;
  double routed = 0;
};

/// A stage of a pipeline as memory sees it.
struct Stage {
  double layers = 0;
  double layers_with_experts = 0;
  double embeddings = 0;   ///< embedding and head count one each
  double layers_kept = 0;  ///< whose activations are held at once, over all micro-batches
  bool has_head = false;
};

Stage make_stage(const Workload& workload, bool is_first) {
  const Layout& layout = workload.layout;
  const TransformerShape& shape = workload.shape;
  const bool is_last = layout.pp == 1 || !is_first;
  Stage stage;
  stage.layers = real(shape.layers) / real(layout.pp);
  const double dense = shape.experts ? real(shape.experts->dense_layers) : real(shape.layers);
  // A last stage has experts in all its layers as long as dense ones fit into the first.
  stage.layers_with_experts = real(shape.expert_layers()) / real(layout.pp);
  if (shape.experts && layout.pp > 1) {
    stage.layers_with_experts =
        is_first ? std::max(0.0, stage.layers - dense) : std::min(stage.layers, real(shape.expert_layers()));
  }
  stage.embeddings = (is_first ? 1 : 0) + (is_last && !(shape.tied && layout.pp == 1) ? 1 : 0);
  stage.layers_kept = is_first ? layers_in_flight(workload) : stage.layers;
  stage.has_head = is_last;
  return stage;
}

RankParameters parameters_of(const Workload& workload, const Stage& stage) {
  const TransformerShape& shape = workload.shape;
  const double t = real(workload.layout.tp);
  const double with = stage.layers_with_experts;
  RankParameters out;
  out.common = (with * shape.common_parameters(true) + (stage.layers - with) * shape.common_parameters(false) +
                stage.embeddings * shape.embedding_parameters()) /
               t;
  if (with > 0) {
    out.routed = with * real(shape.experts->experts) * shape.expert_parameters() / (real(workload.layout.ep) * t);
  }
  return out;
}

double kept_activations(const Workload& workload, const Software& software, const Stage& stage) {
  const double with = stage.layers > 0 ? stage.layers_with_experts / stage.layers : 0;
  double mean = 0;
  if (with < 1) mean += (1 - with) * layer_activation_bytes(workload, software, false);
  if (with > 0) mean += with * layer_activation_bytes(workload, software, true);
  return stage.layers_kept * mean;
}

/// All that a layer's backward needs beside what was kept, once.
double recomputed_layer(const Workload& workload, const Software& software, bool has_experts) {
  if (workload.recompute == LayerRecompute::kNone) return 0;
  Workload whole = workload;
  whole.recompute = LayerRecompute::kNone;
  return layer_activation_bytes(whole, software, has_experts) - layer_activation_bytes(workload, software, has_experts);
}

/// Gradients of the feed-forward layer's inner arrays, while that layer runs backward.
double layer_gradients(const Workload& workload, bool has_experts) {
  const TransformerShape& shape = workload.shape;
  double ffn = feed_forward_width(shape, has_experts);
  if (has_experts) ffn += real(shape.experts->active) * real(shape.experts->ffn);
  return on_rank({2 * real(shape.hidden), (shape.gated ? 6 : 4) * ffn}, workload);
}

void add_flat_states(LayoutMemory& memory, const Workload& workload, const Software& software,
                     const RankParameters& parameters) {
  const Layout& layout = workload.layout;
  const double ranks = software.shards_optimizer ? real(layout.data_ranks()) : 1;
  const double expert_ranks =
      software.shards_optimizer ? std::max(1.0, real(layout.data_ranks()) / real(layout.ep)) : 1;
  memory.weights = 2 * (parameters.common + parameters.routed);
  memory.gradients = software.gradient_bytes * (parameters.common + parameters.routed);
  memory.optimizer = 12 * (parameters.common / ranks + parameters.routed / expert_ranks);
}

LayoutMemory flat_stage(const Workload& workload, const Software& software, const Stage& stage) {
  const TransformerShape& shape = workload.shape;
  const double t = real(workload.layout.tp);
  const double tokens = workload.rank_tokens();
  const bool has_experts = stage.layers_with_experts > 0;
  LayoutMemory memory;
  add_flat_states(memory, workload, software, parameters_of(workload, stage));
  memory.activations = kept_activations(workload, software, stage);
  const double recomputed = recomputed_layer(workload, software, has_experts);
  // Head and loss come first in backward; without them the peak is in the last layer.
  if (stage.has_head) {
    memory.logits = tokens * real(shape.vocab) / t * (software.fused_loss ? 4 : 12);
    memory.working = recomputed > memory.logits ? recomputed - memory.logits : 0;
  } else {
    memory.working = recomputed + layer_gradients(workload, has_experts);
  }
  if (software.attention != AttentionKernel::kUnfused) {
    // Weight gradients are added into the flat buffer; autograd still gets an array of the weight's size for each
    // shape of matrix, and one for embedding or head.
    const double one_layer = shape.common_parameters(has_experts) + (has_experts ? shape.expert_parameters() : 0);
    memory.working += 2 * one_layer / t;
    if (stage.has_head) memory.working += 2 * shape.embedding_parameters() / t;
  }
  // Gathered input and its gradient.
  if (workload.layout.tp > 1 && workload.layout.sequence_parallel) memory.working += 4 * tokens * real(shape.hidden);
  memory.allocator = kReserve * memory.total();
  return memory;
}

LayoutMemory sharded_stage(const Workload& workload, const Software& software, const Stage& stage) {
  const TransformerShape& shape = workload.shape;
  const double t = real(workload.layout.tp);
  const bool has_experts = stage.layers_with_experts > 0;
  const RankParameters parameters = parameters_of(workload, stage);
  const double shards = real(workload.layout.data_ranks());
  const double routed = parameters.routed * real(workload.layout.ep);
  const double mine = (parameters.common + routed) / shards;
  LayoutMemory memory;
  memory.weights = 4 * mine;
  memory.gradients = 4 * mine;
  memory.optimizer = 8 * mine;
  memory.activations = kept_activations(workload, software, stage);
  memory.working = recomputed_layer(workload, software, has_experts);
  if (!software.fuses_pointwise) {
    // Arrays of the layer's backward that fused kernels never write, and norms' gradients in 32 bits.
    memory.working += layer_gradients(workload, has_experts) + on_rank({16 * real(shape.hidden), 0}, workload);
  }
  double gathered = shape.common_parameters(has_experts);
  if (has_experts) gathered += real(shape.experts->experts) * shape.expert_parameters() / real(workload.layout.ep);
  memory.working += 2 * gathered / t;
  // In a pipeline weights stay gathered between micro-batches, and gradients add up unsharded in 32 bits.
  const bool is_pipeline = workload.layout.pp > 1;
  if (software.keeps_gathered || is_pipeline) memory.working += (is_pipeline ? 6 : 2) * stage.layers * gathered / t;
  if (stage.has_head) {
    memory.logits = workload.rank_tokens() * real(shape.vocab) / t * (software.fused_loss ? 6 : 14);
    memory.working += 2 * shape.embedding_parameters() / t;
  }
  // Small long-lived arrays between large ones: a fourteenth of the states is lost in blocks that nothing else fits.
  if (software.reports_reserved) memory.allocator = 0.07 * memory.states();
  memory.allocator += kReserve * memory.total();
  return memory;
}

}  // namespace

double layer_activation_bytes(const Workload& workload, const Software& software, bool has_experts) {
  return on_rank(kept_by_layer(workload, software, has_experts), workload);
}

double layers_in_flight(const Workload& workload) {
  const Layout& layout = workload.layout;
  const double layers = real(workload.shape.layers);
  const double p = real(layout.pp);
  const double v = real(layout.vpp);
  double passes = std::min(p, workload.micro_batches());
  if (v > 1) passes = std::min(p * (1 + (p - 1) / (p * v)), workload.micro_batches());
  return layers / p * passes;
}

LayoutMemory layout_memory(const Workload& workload, const Software& software) {
  const auto of = [&](bool is_first) {
    const Stage stage = make_stage(workload, is_first);
    return software.memory == MemoryRule::kFlat ? flat_stage(workload, software, stage)
                                                : sharded_stage(workload, software, stage);
  };
  LayoutMemory first = of(true);
  if (workload.layout.pp == 1) return first;
  const LayoutMemory last = of(false);
  return last.total() > first.total() ? last : first;
}

}  // namespace litespark
