// SPDX-License-Identifier: Apache-2.0
#include "plan/step_time.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "plan/collective_time.h"

namespace litespark {
namespace {

/// Layers of one stage, and the head where it is: the mean layer times their number.
struct StageSeconds {
  LayerSeconds sum;
  double slowest = 0;
};

void add(LayerSeconds& sum, const LayerSeconds& layer, double times) {
  sum.forward += times * layer.forward;
  sum.backward += times * layer.backward;
  sum.matmul += times * layer.matmul;
  sum.attention += times * layer.attention;
  sum.pointwise += times * layer.pointwise;
  sum.recompute += times * layer.recompute;
  sum.tensor += times * layer.tensor;
  sum.context += times * layer.context;
  sum.expert += times * layer.expert;
}

/// Of `layers` in `parts` of whole layers, the last with a head that takes as long as `head` layers: the longest part,
/// in layers, when that is as short as can be.
double longest_part(int64_t layers, int64_t parts, double head) {
  const auto fits = [&](double most) {
    const double last = std::floor(most - head);
    return last >= 1 && std::floor(most) * real(parts - 1) + last >= real(layers);
  };
  for (int64_t whole = 1; whole <= layers; ++whole) {
    // Between two numbers of layers only the last part's own length can be the longest.
    for (const double most : {real(whole - 1) + head - std::floor(head) + 1e-9, real(whole)}) {
      if (most >= 1 && fits(most)) return most;
    }
  }
  return real(layers) + head;
}

StageSeconds stage_seconds(const Workload& workload, const Software& software, const Hardware& hardware) {
  const TransformerShape& shape = workload.shape;
  const double layers = layers_of_fullest_stage(workload);
  const double with_experts = real(shape.expert_layers()) / real(shape.layers);
  StageSeconds stage;
  LayerSeconds mean;
  if (with_experts < 1) add(mean, layer_seconds(workload, software, hardware, false), 1 - with_experts);
  if (with_experts > 0) add(mean, layer_seconds(workload, software, hardware, true), with_experts);
  const LayerSeconds head = head_seconds(workload, software, hardware);
  const int64_t slots = workload.layout.pp * workload.layout.vpp;
  const bool has_head_slot = shape.layers % slots != 0 && (shape.layers + 2) % slots == 0;
  if (workload.layout.pp == 1) {
    add(stage.sum, mean, layers);
    add(stage.sum, head, 1);
    stage.slowest = stage.sum.total();
    return stage;
  }
  if (!workload.layout.range_layers.empty()) {
    const std::vector<int64_t> stages = layers_of_stages(workload.layout);
    for (size_t s = 0; s < stages.size(); ++s) {
      StageSeconds candidate;
      add(candidate.sum, mean, real(stages[s]));
      if (s + 1 == stages.size()) add(candidate.sum, head, 1);
      candidate.slowest = candidate.sum.total();
      if (candidate.slowest > stage.slowest) stage = candidate;
    }
    return stage;
  }
  if (software.balances_stages) {
    const double longest = longest_part(shape.layers, slots, head.total() / mean.total());
    add(stage.sum, mean, std::floor(longest) * real(workload.layout.vpp));
    stage.slowest = longest * real(workload.layout.vpp) * mean.total();
    return stage;
  }
  add(stage.sum, mean, layers);
  if (has_head_slot) {
    stage.slowest = std::max(layers * mean.total(), (layers - 1) * mean.total() + head.total());
  } else {
    // The last stage is late by the head in each micro-batch; half of it is taken up by the others' slack.
    stage.slowest = layers * mean.total() + 0.5 * head.total();
  }
  return stage;
}

/// At the clock that its matmuls leave to attention.
StageSeconds settled_stage_seconds(const Workload& workload, const Software& software, const Hardware& hardware) {
  const StageSeconds first = stage_seconds(workload, software, hardware);
  if (software.kernels.attention_between_matmuls == 0) return first;
  const double matmul_share = first.sum.matmul / (first.sum.total() - first.sum.recompute);
  return stage_seconds(workload, software, between_matmuls(hardware, software.kernels, matmul_share));
}

/// Gathers forward and backward, and one reduction, of every layer in each micro-batch.
double sharded_layers_seconds(const Workload& workload, const Software& software, const Hardware& hardware) {
  const Layout& layout = workload.layout;
  const double parts = real(layout.tp) * real(layout.pp);
  const Group group = strided_group(layout.data_ranks(), layout.tp, hardware);
  if (group.ranks < 2) return 0;
  const double layers = layers_of_fullest_stage(workload) + 1;
  const double each = workload.shape.parameters() / parts / layers;
  const double gathers = software.keeps_gathered ? 1 : 2;
  const double gather = collective_seconds(Collective::kAllGather, software.weight_bytes * each, group, hardware,
                                           software.one_network_card);
  const double reduce = collective_seconds(Collective::kReduceScatter, software.gradient_bytes * each, group, hardware,
                                           software.one_network_card);
  return layers * (gathers * gather + reduce);
}

/// The sum of gradients over data-parallel ranks, and gathering the updated weights: what shows of them.
double gradient_seconds(const Workload& workload, const Software& software, const Hardware& hardware) {
  const Layout& layout = workload.layout;
  const Group group = strided_group(layout.data_ranks(), layout.tp, hardware);
  if (group.ranks < 2) return 0;
  const double weights = workload.shape.parameters() / (real(layout.tp) * real(layout.pp));
  const auto visible = [&](Collective kind, double bytes) {
    const double lost = software.counts_contention ? contention_seconds(kind, bytes, real(group.ranks), hardware) : 0;
    return software.data_exposed * collective_seconds(kind, bytes, group, hardware) +
           (1 - software.data_exposed) * lost;
  };
  if (!software.shards_optimizer) return visible(Collective::kAllReduce, software.gradient_bytes * weights);
  return visible(Collective::kReduceScatter, software.gradient_bytes * weights) +
         visible(Collective::kAllGather, software.weight_bytes * weights);
}

/// Experts are held once in ep ranks rather than on each.
double held_parameters(const Workload& workload) {
  const TransformerShape& shape = workload.shape;
  double held = shape.parameters();
  if (shape.experts) {
    const double routed = real(shape.expert_layers()) * real(shape.experts->experts) * shape.expert_parameters();
    held -= routed * (1 - 1 / real(workload.layout.ep));
  }
  return held / (real(workload.layout.tp) * real(workload.layout.pp));
}

double optimizer_seconds(const Workload& workload, const Software& software, const Hardware& hardware) {
  // Gradient, master and moments read, master, moments and weight written, some of them twice.
  constexpr double kBytes = 40;
  const double ranks = software.shards_layers || software.shards_optimizer ? real(workload.layout.data_ranks()) : 1;
  return kBytes * held_parameters(workload) / ranks / hardware.memory_rate();
}

}  // namespace

std::vector<std::pair<const char*, double>> step_parts(const StepSeconds& step) {
  return {{"matmul", step.matmul},
          {"attention", step.attention},
          {"passes over memory", step.pointwise},
          {"recompute", step.recompute},
          {"tensor parallelism", step.tensor},
          {"context parallelism", step.context},
          {"experts", step.expert},
          {"pipeline waiting", step.bubble},
          {"sharded layers", step.sharded},
          {"sum of gradients", step.gradients},
          {"update", step.optimizer}};
}

StepSeconds step_seconds(const Workload& workload, const Software& software, const Hardware& machine, double slowness) {
  check_workload(workload);
  machine.validate();
  const Hardware hardware = with_kernels(machine, software.kernels);
  const StageSeconds stage = settled_stage_seconds(workload, software, hardware);
  const double passes = workload.micro_batches();
  const Layout& layout = workload.layout;
  StepSeconds out;
  const auto put = [&](double& to, double seconds) {
    to = slowness * software.stretch * seconds;
    out.total += to;
  };
  const double recomputed = stage.sum.recompute;
  // A recomputed layer repeats its communication too; all of it is shown as recomputation.
  const LayerSeconds& sum = stage.sum;
  put(out.matmul, passes * sum.matmul);
  put(out.attention, passes * sum.attention);
  put(out.pointwise, passes * sum.pointwise);
  put(out.recompute, passes * recomputed);
  put(out.tensor, passes * sum.tensor);
  put(out.context, passes * sum.context);
  put(out.expert, passes * sum.expert);
  const double waiting = real(layout.pp - 1) / real(layout.vpp) * stage.slowest;
  put(out.bubble, passes * (stage.slowest - sum.total()) + waiting);
  if (software.shards_layers) {
    const double gathering = sharded_layers_seconds(workload, software, hardware);
    const double hidden = std::min(gathering, stage.slowest);
    // In a pipeline weights stay gathered, and gradients are summed once.
    const double times = layout.pp > 1 ? 1 : passes;
    put(out.sharded, times * (gathering - hidden + software.sharded_exposed * hidden));
  } else {
    put(out.gradients, gradient_seconds(workload, software, hardware));
  }
  put(out.optimizer, optimizer_seconds(workload, software, hardware));
  out.tokens_per_second = workload.step_tokens() / out.total;
  out.model_tflops = workload.shape.training_flops_per_token(real(workload.seq_len)) * out.tokens_per_second /
                     real(layout.gpus()) / 1e12;
  return out;
}

}  // namespace litespark
