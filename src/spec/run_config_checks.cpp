// SPDX-License-Identifier: Apache-2.0
// What a run file cannot say in one key: contradictions and derived values.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/utf8.h"
#include "spec/run_config.h"
#include "spec/stage_layers.h"

namespace litespark {
namespace {

/// The effective configuration is written as TOML, which holds no other bytes and could not be read again.
void validate_texts(RunConfig config) {
  const Fields fields = Fields::of(config);
  for (const Field& field : fields.list()) {
    const auto* const text = std::get_if<std::string*>(&field.value);
    if (text != nullptr && !is_utf8(**text)) throw ConfigError(field.path, "is not UTF-8", **text, "UTF-8");
  }
}

void validate_model(const RunConfig& config) {
  const ModelSection& model = config.model;
  if (model.init == ModelInit::kScratch) {
    const ModelConfig shape = scratch_model_config(config);
    if (config.data.seq_len > shape.max_position_embeddings) {
      throw ConfigError("data.seq_len", "is longer than the model's context", config.data.seq_len,
                        "at most model.max_position_embeddings = " + std::to_string(shape.max_position_embeddings));
    }
    return;
  }
  if (model.path.empty()) {
    throw ConfigError("model.path", "is needed with model.init = \"folder\"", "nothing", "a Hugging Face folder");
  }
}

void validate_data(const RunConfig& config) {
  const DataSection& data = config.data;
  if (data.source != DataSource::kSynthetic && data.path.empty()) {
    throw ConfigError("data.path", "is needed", "nothing",
                      data.source == DataSource::kText ? "a text file" : "a folder of shards",
                      "or set data.source = \"synthetic\"");
  }
  if (config.train.eval_every > 0 && data.source != DataSource::kSynthetic && data.eval_path.empty()) {
    throw ConfigError("data.eval_path", "is needed with train.eval_every", "nothing", "held-out data",
                      "or set train.eval_every = 0");
  }
  if (config.train.sample_every > 0 && data.tokenizer.empty()) {
    throw ConfigError("data.tokenizer", "is needed with train.sample_every", "nothing", "a folder with tokenizer.json",
                      "or set train.sample_every = 0");
  }
}

void validate_weight_formats(const RunConfig& config) {
  const PrecisionSection& precision = config.precision;
  const bool computes_in_bf16 = precision.compute == DType::kBF16;
  if (precision.master != MasterWeights::kF32 && !computes_in_bf16) {
    throw ConfigError("precision.master", "needs bf16 weights to compute with", "precision.compute = \"fp32\"",
                      "precision.compute = \"bf16\"", "or set precision.master = \"fp32\"");
  }
  if (precision.matmul != MatmulPrecision::kCompute && !computes_in_bf16) {
    throw ConfigError("precision.matmul", "is for bf16 activations", "precision.compute = \"fp32\"",
                      "precision.compute = \"bf16\"", "or set precision.matmul = \"compute\"");
  }
  if (precision.attention != AttentionPrecision::kCompute && !computes_in_bf16) {
    throw ConfigError("precision.attention", "is for bf16 activations", "precision.compute = \"fp32\"",
                      "precision.compute = \"bf16\"", "or set precision.attention = \"compute\"");
  }
  if (precision.gradient == DType::kF32) return;
  if (config.distribution.compression != Compression::kNone) {
    throw ConfigError("distribution.compression", "rounds gradients that precision.gradient has rounded already",
                      "precision.gradient = \"bf16\"", "precision.gradient = \"fp32\"",
                      "or set distribution.compression = \"none\"");
  }
  if (!computes_in_bf16) {
    throw ConfigError("precision.gradient", "is coarser than precision.compute", "bf16", "fp32");
  }
  if (config.train.micro_batch > 0 && config.train.accumulation > 1) {
    throw ConfigError("precision.gradient", "would round every partial sum of the micro-batches",
                      "train.accumulation = " + std::to_string(config.train.accumulation), "1",
                      "set precision.gradient = \"fp32\", which sums in fp32");
  }
}

/// Tokens are counted in 64 bits, over the whole run.
void validate_tokens(const RunConfig& config) {
  const int64_t factors[] = {std::max<int64_t>(config.train.micro_batch, 1), config.train.accumulation,
                             config.cluster.data_parallel(), config.data.seq_len};
  std::optional<int64_t> of_step = 1;
  for (const int64_t factor : factors) of_step = of_step ? checked_mul(*of_step, factor) : std::nullopt;
  if (!of_step) {
    throw ConfigError("train.accumulation", "gives a step of more tokens than can be counted",
                      config.train.accumulation, "fewer than 2^63 tokens a step");
  }
  if (checked_mul(*of_step, config.train.steps)) return;
  throw ConfigError("train.steps", "gives a run of more tokens than can be counted", config.train.steps,
                    "fewer than 2^63 in all, of " + std::to_string(*of_step) + " a step");
}

void validate_training(const RunConfig& config) {
  validate_tokens(config);

  if (config.optim.betas.size() != 2) {
    throw ConfigError("optim.betas", "needs two numbers", config.optim.betas.size(), 2, "for example [0.9, 0.95]");
  }
  if (config.schedule.warmup > config.train.steps) {
    throw ConfigError("schedule.warmup", "is longer than the run", config.schedule.warmup,
                      "at most train.steps = " + std::to_string(config.train.steps));
  }
  if (config.schedule.name == ScheduleKind::kWsd) {
    const double decay_steps = config.schedule.decay_fraction * static_cast<double>(config.train.steps);
    if (static_cast<double>(config.schedule.warmup) + decay_steps > static_cast<double>(config.train.steps)) {
      throw ConfigError("schedule.decay_fraction", "overlaps the warm-up", config.schedule.decay_fraction,
                        "warmup + decay_fraction x steps within train.steps");
    }
  }
  if (config.train.spike_factor != 0.0 && config.train.spike_factor <= 1.0) {
    throw ConfigError("train.spike_factor", "would skip ordinary steps", config.train.spike_factor,
                      "0 (off) or more than 1");
  }
  if (config.precision.rope != RopePrecision::kF32 && config.model.positions == Positions::kAlibi) {
    throw ConfigError("precision.rope", "rounds angles that ALiBi does without", "model.positions = \"alibi\"",
                      "model.positions = \"rope\"", "or leave precision.rope out");
  }
  if (config.precision.compute == DType::kF32 && config.precision.residual == ResidualPrecision::kBF16) {
    throw ConfigError("precision.residual", "is coarser than precision.compute", "bf16", "fp32");
  }
  validate_weight_formats(config);
  const int64_t keep_every = config.checkpoint.keep_every;
  const int64_t every = config.checkpoint.every;
  if (keep_every > 0 && (every == 0 || keep_every % every != 0)) {
    throw ConfigError("checkpoint.keep_every", "keeps checkpoints that are never written", keep_every,
                      "a multiple of checkpoint.every", "checkpoint.every is " + std::to_string(every));
  }
  if (config.memory.offload != Offload::kNone && config.memory.recompute != Recompute::kBlock) {
    RunConfig copy = config;
    const Fields fields = Fields::of(copy);
    throw ConfigError("memory.offload", "moves what block recomputation keeps",
                      "memory.recompute = " + value_text(*fields.find("memory.recompute")),
                      "memory.recompute = \"block\"");
  }
  if (config.device.verify_every > 0 && !config.deterministic) {
    throw ConfigError("device.verify_every", "compares the bits of two runs, which deterministic = false lets differ",
                      config.device.verify_every, 0, "set deterministic = true or leave the check out");
  }
  config.memory.budget_bytes();
}

void validate_cluster(const ClusterSection& cluster) {
  if (cluster.gpus % cluster.nodes != 0) {
    throw ConfigError("cluster.nodes", "does not divide cluster.gpus", cluster.nodes,
                      "a divisor of " + std::to_string(cluster.gpus));
  }
  const std::array<int64_t, 3> axes = {cluster.tp, cluster.pp, cluster.cp};
  std::optional<int64_t> product = std::max<int64_t>(cluster.dp, 1);
  for (const int64_t axis : axes) product = product ? checked_mul(*product, axis) : std::nullopt;
  const bool fits = product && (cluster.dp == 0 ? cluster.gpus % *product == 0 : cluster.gpus == *product);
  if (!fits) {
    throw ConfigError("cluster", "dp x tp x pp x cp must make up cluster.gpus",
                      product ? std::to_string(*product) : "more than 2^63", cluster.gpus);
  }
  if (cluster.data_parallel() % cluster.ep != 0) {
    throw ConfigError("cluster.ep", "does not divide the data-parallel ranks", cluster.ep,
                      "a divisor of " + std::to_string(cluster.data_parallel()));
  }
}

/// With micro_batch = 0 the memory plan takes care of it when it cuts a step.
void validate_rounds(const RunConfig& config) {
  const ClusterSection& cluster = config.cluster;
  require_parts(cluster.pp_layers, cluster.pp, cluster.vpp);
  if (cluster.vpp == 1) return;
  if (cluster.pp == 1) {
    throw ConfigError("cluster.vpp", "needs several pipeline stages", cluster.vpp, "1, or set cluster.pp");
  }
  if (config.train.micro_batch == 0 || config.train.accumulation % cluster.pp == 0) return;
  throw ConfigError("cluster.vpp", "interleaved stages take micro-batches in rounds of cluster.pp",
                    "train.accumulation = " + std::to_string(config.train.accumulation),
                    "a multiple of " + std::to_string(cluster.pp), "or set cluster.vpp = 1");
}

/// Whoever looks at the model sees one that all ranks have, and a look changes nothing of what is trained.
void validate_synchronisation(const RunConfig& config) {
  const int64_t every = config.distribution.sync_small_every;
  if (config.cluster.data_parallel() == 1) return;
  const std::pair<const char*, int64_t> looks[] = {{"train.eval_every", config.train.eval_every},
                                                   {"train.sample_every", config.train.sample_every},
                                                   {"checkpoint.every", config.checkpoint.every},
                                                   {"distribution.verify_every", config.distribution.verify_every}};
  for (const auto& [key, period] : looks) {
    if (period % every == 0) continue;
    throw ConfigError(key, "falls between two steps at which ranks have the same norms and biases", period,
                      "a multiple of distribution.sync_small_every = " + std::to_string(every));
  }
}

void validate_distribution(const RunConfig& config) {
  validate_synchronisation(config);
  if (!config.meets_ranks()) return;
  if (config.distribution.record_calls > 0 && config.device.kind == DeviceKind::kCuda) {
    throw ConfigError("distribution.record_calls", "NCCL makes its calls on the device, at moments that no host sees",
                      std::to_string(config.distribution.record_calls) + " with device.kind = \"cuda\"", 0);
  }
  if (config.distribution.graphs && config.meter.timeline_every > 0) {
    throw ConfigError("distribution.graphs", "records whole phases, which an observed step is not",
                      "meter.timeline_every = " + std::to_string(config.meter.timeline_every), 0,
                      "set meter.timeline_every = 0 or distribution.graphs = false");
  }
  if (config.distribution.graphs && config.distribution.reduction == ReductionLevels::kHierarchical) {
    throw ConfigError("distribution.reduction", "takes memory as it goes, which a recorded phase cannot",
                      "\"hierarchical\" with distribution.graphs", "\"flat\"");
  }
  if (config.distribution.compression != Compression::kNone &&
      config.distribution.reduction == ReductionLevels::kHierarchical) {
    throw ConfigError("distribution.reduction", "has no form for messages in 16 bits, which go from rank to rank",
                      "\"hierarchical\" with distribution.compression", "\"auto\" or \"flat\"",
                      "or set distribution.compression = \"none\"");
  }
  if (config.distribution.one_sided_below <= config.distribution.multicast_below) {
    throw ConfigError("distribution.one_sided_below", "does not come after distribution.multicast_below",
                      config.distribution.one_sided_below,
                      "more than " + std::to_string(config.distribution.multicast_below));
  }
  if (config.device.verify_every > 0) {
    throw ConfigError("device.verify_every", "compares the gradients of a rank that meets no others",
                      config.device.verify_every, 0,
                      "cluster.gpus is " + std::to_string(config.cluster.gpus) +
                          "; distribution.verify_every compares what ranks have in common");
  }
}

void validate_elastic(const RunConfig& config) {
  if (!config.distribution.elastic) return;
  if (config.train.micro_batch == 0) {
    throw ConfigError("distribution.elastic", "needs micro-batches that fewer ranks can share out",
                      "train.micro_batch = 0, which depends on the ranks", "a train.micro_batch of 1 or more");
  }
  if (config.distribution.sync_small_every > 1) {
    throw ConfigError("distribution.elastic", "cannot go on with fewer ranks, whose copies of norms are their own",
                      "distribution.sync_small_every = " + std::to_string(config.distribution.sync_small_every), 1);
  }
}

/// Keys of [model] that describe a shape, by whether they were given.
std::vector<std::string> given_shape_keys(ModelSection model) {
  std::vector<std::string> given;
  const ModelSection defaults;
  ModelSection reference = defaults;
  const Fields fields = Fields::of(model);
  const Fields unset = Fields::of(reference);
  for (size_t i = 0; i < fields.list().size(); ++i) {
    const Field& field = fields.list()[i];
    if (field.path == "init" || field.path == "path") continue;
    if (value_text(field) != value_text(unset.list()[i])) given.push_back("model." + field.path);
  }
  return given;
}

using Ignored = std::vector<std::string>;

/// Context ranks of one replica reduce gradients like replicas do; tensor ranks and pipeline stages do not.
void add_ignored_of_data_ranks(const RunConfig& config, Ignored& ignored) {
  const DistributionSection& distribution = config.distribution;
  if (distribution.compression == Compression::kNone && !distribution.error_feedback) {
    ignored.push_back("distribution.error_feedback: distribution.compression is \"none\", which loses nothing");
  }
  if (config.cluster.reducing_ranks() > 1) return;
  if (distribution.zero > 1) {
    ignored.push_back("distribution.zero: there is one data-parallel rank, which shares with nobody");
  }
  if (distribution.sync_small_every > 1) {
    ignored.push_back("distribution.sync_small_every: there is one data-parallel rank, whose gradients are whole");
  }
  if (distribution.verify_every > 0) {
    ignored.push_back("distribution.verify_every: there is one data-parallel rank, which nobody can be held against");
  }
  if (distribution.compression == Compression::kNone) return;
  ignored.push_back("distribution.compression: there is one data-parallel rank, which tells its gradients to nobody");
  if (!distribution.error_feedback) {
    ignored.push_back("distribution.error_feedback: there is one data-parallel rank, which rounds nothing");
  }
}

void add_ignored_of_links(const RunConfig& config, Ignored& ignored) {
  const DistributionSection& distribution = config.distribution;
  const DistributionSection usual;
  if (distribution.tiers != HostTiersChoice::kArticle && (distribution.multicast_below != usual.multicast_below ||
                                                          distribution.one_sided_below != usual.one_sided_below)) {
    ignored.push_back("distribution.multicast_below and one_sided_below: distribution.tiers is not \"article\"");
  }
  if (config.cluster.gpus > 1) return;
  if (distribution.reduction != usual.reduction) {
    ignored.push_back("distribution.reduction: there is one rank, which has nothing to add");
  }
  if (distribution.tiers != usual.tiers) {
    ignored.push_back("distribution.tiers: there is one rank, which no link joins to others");
  }
  if (distribution.timeout_seconds != usual.timeout_seconds && !distribution.at_one_rank) {
    ignored.push_back("distribution.timeout_seconds: there is one rank, which waits for nobody");
  }
  if (distribution.record_calls != usual.record_calls && !distribution.at_one_rank) {
    ignored.push_back("distribution.record_calls: there is one rank, which makes no calls");
  }
}

void add_ignored_distribution(const RunConfig& config, Ignored& ignored) {
  const DistributionSection& distribution = config.distribution;
  const ClusterSection& cluster = config.cluster;
  const DistributionSection usual;
  add_ignored_of_data_ranks(config, ignored);
  add_ignored_of_links(config, ignored);
  if (distribution.tensor_stretches != usual.tensor_stretches && cluster.tp == 1) {
    ignored.push_back("distribution.tensor_stretches: cluster.tp is 1, so no rows are exchanged");
  }
  if (distribution.elastic && cluster.gpus == 1) {
    ignored.push_back("distribution.elastic: there is one rank, without which nothing is left");
  }
  if (!distribution.elastic && distribution.max_restarts != usual.max_restarts) {
    ignored.push_back("distribution.max_restarts: distribution.elastic is false, so nothing is started again");
  }
  if (distribution.graphs && !config.meets_ranks()) {
    ignored.push_back("distribution.graphs: there is one rank, whose phases are graphs anyway");
  }
  if (distribution.graphs && config.device.kind == DeviceKind::kCpu) {
    ignored.push_back("distribution.graphs: device.kind is \"cpu\", which records nothing");
  }
  if (distribution.at_one_rank && cluster.gpus > 1) {
    ignored.push_back("distribution.at_one_rank: there are " + std::to_string(cluster.gpus) + " ranks");
  }
}

}  // namespace

DType PrecisionSection::residual_dtype() const {
  switch (residual) {
    case ResidualPrecision::kCompute: return compute;
    case ResidualPrecision::kF32: return DType::kF32;
    case ResidualPrecision::kBF16: return DType::kBF16;
  }
  throw InternalError("precision.residual", "unknown value", static_cast<int>(residual), "a ResidualPrecision");
}

int64_t parse_size(std::string_view key, const std::string& text) {
  static constexpr std::array<std::pair<std::string_view, double>, 7> kUnits = {
      {{"", 1.0}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}}};
  double number = 0.0;
  const char* last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, number);
  std::string_view unit(end, static_cast<size_t>(last - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto known = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& entry) { return entry.first == unit; });
  if (status == std::errc() && known != kUnits.end() && number > 0.0) {
    const double bytes = number * known->second;
    if (bytes >= 1.0 && bytes < 0x1p62) return static_cast<int64_t>(bytes);
  }
  throw ConfigError(key, "is not a size", "\"" + text + "\"", "a size such as \"24GiB\"");
}

std::optional<int64_t> MemorySection::budget_bytes() const {
  if (budget == "auto") return std::nullopt;
  return parse_size("memory.budget", budget);
}

int64_t ClusterSection::data_parallel() const {
  return dp > 0 ? dp : std::max<int64_t>(1, gpus / std::max<int64_t>(1, tp * pp * cp));
}

void RunConfig::validate() const {
  validate_texts(*this);
  validate_cluster(cluster);
  validate_rounds(*this);
  validate_distribution(*this);
  validate_elastic(*this);
  validate_data(*this);
  validate_training(*this);
  validate_model(*this);
}

std::vector<std::string> RunConfig::ignored_settings() const {
  std::vector<std::string> ignored;
  if (model.init == ModelInit::kFolder) {
    for (const std::string& key : given_shape_keys(model))
      ignored.push_back(key + ": the folder's config.json decides");
  } else if (!model.path.empty()) {
    ignored.push_back("model.path: model.init is \"scratch\"");
  }
  if (data.source == DataSource::kSynthetic && !data.path.empty()) {
    ignored.push_back("data.path: data.source is \"synthetic\"");
  }
  if (train.eval_every == 0 && !data.eval_path.empty()) ignored.push_back("data.eval_path: train.eval_every is 0");
  if (train.sample_every == 0 && !train.sample_prompt.empty()) {
    ignored.push_back("train.sample_prompt: train.sample_every is 0");
  }
  if (memory.recompute != Recompute::kEveryK && memory.recompute_every != MemorySection{}.recompute_every) {
    ignored.push_back("memory.recompute_every: memory.recompute is not \"every-k\"");
  }
  add_ignored_distribution(*this, ignored);
  if (precision.matmul == MatmulPrecision::kCompute) {
    if (precision.fp8_gradient != PrecisionSection{}.fp8_gradient) {
      ignored.push_back("precision.fp8_gradient: precision.matmul is \"compute\"");
    }
    if (precision.fp8_scaling != PrecisionSection{}.fp8_scaling) {
      ignored.push_back("precision.fp8_scaling: precision.matmul is \"compute\"");
    }
  }
  if (schedule.name != ScheduleKind::kWsd && schedule.decay_fraction != ScheduleSection{}.decay_fraction) {
    ignored.push_back("schedule.decay_fraction: schedule.name is not \"wsd\"");
  }
  return ignored;
}

}  // namespace litespark
