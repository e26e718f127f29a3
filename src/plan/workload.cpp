// SPDX-License-Identifier: Apache-2.0
#include "plan/workload.h"

#include <algorithm>
#include <optional>

#include "core/checked.h"
#include "core/error.h"

namespace litespark {
namespace {

constexpr int64_t kMostDevices = int64_t{1} << 22;

void need_positive(const char* key, int64_t value) {
  if (value < 1) throw ConfigError(key, "must be positive", value, "at least 1");
}

void need_division(const std::string& key, int64_t degree, const char* what, int64_t total) {
  if (total % degree != 0) {
    throw ConfigError(key, "does not divide " + std::string(what), degree, "a divisor of " + std::to_string(total));
  }
}

void check_sizes(const Workload& workload) {
  const TransformerShape& shape = workload.shape;
  need_positive("layers", shape.layers);
  need_positive("hidden", shape.hidden);
  need_positive("heads", shape.heads);
  need_positive("kv_heads", shape.kv_heads);
  need_positive("head_dim", shape.head_dim);
  need_positive("ffn", shape.ffn);
  need_positive("vocab", shape.vocab);
  need_positive("seqlen", workload.seq_len);
  need_positive("micro_batch", workload.micro_batch);
  need_positive("global_batch", workload.global_batch);
  const Layout& layout = workload.layout;
  need_positive("dp", layout.dp);
  need_positive("tp", layout.tp);
  need_positive("pp", layout.pp);
  need_positive("cp", layout.cp);
  need_positive("ep", layout.ep);
  need_positive("vpp", layout.vpp);
}

}  // namespace

std::string Layout::text() const {
  std::string out;
  const auto add = [&](const char* name, int64_t degree) {
    if (degree > 1) out += (out.empty() ? "" : " x ") + std::string(name) + " " + std::to_string(degree);
  };
  add("dp", dp);
  add("tp", tp);
  add("pp", pp);
  add("cp", cp);
  if (ep > 1) out += ", ep " + std::to_string(ep);
  if (vpp > 1) out += ", " + std::to_string(vpp) + " chunks a stage";
  return out.empty() ? "one device" : out;
}

void check_workload(const Workload& workload, std::string_view section) {
  const auto key = [&](const char* axis) { return std::string(section) + axis; };
  check_sizes(workload);
  const TransformerShape& shape = workload.shape;
  const Layout& layout = workload.layout;
  std::optional<int64_t> devices = 1;
  for (const int64_t degree : {layout.dp, layout.tp, layout.pp, layout.cp}) {
    devices = devices ? checked_mul(*devices, degree) : devices;
  }
  if (!devices || *devices > kMostDevices) {
    throw ConfigError("cluster", "has more devices than a plan is made for", layout.text(),
                      "at most " + std::to_string(kMostDevices));
  }
  const auto tokens = checked_mul(workload.global_batch, workload.seq_len);
  if (!tokens) {
    throw ConfigError("global_batch", "x sequence length overflows", workload.global_batch, "fewer than 2^63 tokens");
  }
  need_division(key("tp"), layout.tp, "the attention heads", shape.heads);
  need_division(key("tp"), layout.tp, "the feed-forward width", shape.ffn);
  need_division(key("cp"), layout.cp, "the sequence", workload.seq_len);
  if (layout.ep > 1 && !shape.experts) throw ConfigError(key("ep"), "needs a model with experts", layout.ep, 1);
  if (shape.experts) need_division(key("ep"), layout.ep, "the experts", shape.experts->experts);
  if (layout.ep > 1) need_division(key("ep"), layout.ep, "dp x cp x tp", layout.dp * layout.cp * layout.tp);
  if (layout.pp > shape.layers) {
    throw ConfigError(key("pp"), "leaves stages without a layer", layout.pp, "at most " + std::to_string(shape.layers));
  }
  if (layout.vpp > 1 && layout.pp == 1) throw ConfigError(key("vpp"), "needs a pipeline", layout.vpp, "1 when pp is 1");
  if (layout.vpp > 1 && layout.pp * layout.vpp > shape.layers + 2) {
    throw ConfigError(key("vpp"), "leaves chunks without a layer", layout.vpp,
                      "pp x vpp at most " + std::to_string(shape.layers + 2));
  }
  const auto together = checked_mul(workload.micro_batch, layout.dp);
  if (!together || workload.global_batch % *together != 0) {
    throw ConfigError("global_batch", "is no multiple of micro_batch x dp", workload.global_batch,
                      "a multiple of " + std::to_string(workload.micro_batch) + " x " + std::to_string(layout.dp));
  }
}

std::vector<int64_t> layers_of_stages(const Layout& layout) {
  std::vector<int64_t> layers(static_cast<size_t>(layout.pp), 0);
  for (size_t range = 0; range < layout.range_layers.size(); ++range) {
    layers[range % layers.size()] += layout.range_layers[range];
  }
  return layers;
}

double layers_of_fullest_stage(const Workload& workload) {
  if (!workload.layout.range_layers.empty()) {
    const std::vector<int64_t> stages = layers_of_stages(workload.layout);
    return static_cast<double>(*std::max_element(stages.begin(), stages.end()));
  }
  const int64_t layers = workload.shape.layers;
  const int64_t slots = workload.layout.pp * workload.layout.vpp;
  int64_t fullest = ceil_div(layers, slots) * workload.layout.vpp;
  if (layers % slots == 0) {
    fullest = layers / workload.layout.pp;
  } else if ((layers + 2) % slots == 0) {
    fullest = (layers + 2) / workload.layout.pp;
  }
  return static_cast<double>(fullest);
}

}  // namespace litespark
