// SPDX-License-Identifier: Apache-2.0
// A run file as structs: one a section, defaults here, help and ranges in the visit members (run_config.cpp). What a
// key means stands there once, and `litespark help config` prints it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/compression.h"
#include "core/dtype.h"
#include "core/fields.h"
#include "spec/fp8_scaling.h"
#include "spec/master_weights.h"
#include "spec/model_config.h"
#include "spec/recompute.h"

namespace litespark {

enum class Task : uint8_t { kPretrain, kSft, kReward, kPpo, kDpo, kGrpo };
enum class ModelInit : uint8_t { kScratch, kFolder };
enum class DataSource : uint8_t { kSynthetic, kText, kShards };
enum class Packing : uint8_t { kDocuments, kStream };
enum class PackedCopies : uint8_t { kAuto, kResident, kOnUse };
enum class OptimKind : uint8_t { kAdamW };
enum class ScheduleKind : uint8_t { kCosine, kLinear, kWsd, kConstant, kInverseSqrt };
/// kCompute: whatever precision.compute says.
enum class ResidualPrecision : uint8_t { kCompute, kF32, kBF16 };
/// kCompute: whatever precision.compute says. kFp8Emulated: fp8, also where it is only emulated.
enum class MatmulPrecision : uint8_t { kCompute, kFp8, kFp8Emulated };
/// The same of attention's forward.
enum class AttentionPrecision : uint8_t { kCompute, kFp8, kFp8Emulated };
enum class Fp8Gradient : uint8_t { kE4M3, kE5M2 };
enum class Offload : uint8_t { kNone, kActivations };
enum class DeviceKind : uint8_t { kAuto, kCpu, kCuda };
/// kAuto: hierarchical where this program makes the calls, flat where the library below (NCCL) knows the hosts itself.
enum class ReductionLevels : uint8_t { kAuto, kFlat, kHierarchical };
/// kAuto: as measured when ranks meet. kArticle: by fixed thresholds.
enum class HostTiersChoice : uint8_t { kAuto, kArticle, kSharded };
enum class SaveSignal : uint8_t { kNone, kUsr1, kUsr2, kHup };

/// config.json's rope_scaling; used with init = "scratch".
struct RopeScalingSection {
  RopeScaling rope_type = RopeScaling::kNone;
  std::optional<double> factor;
  std::optional<double> low_freq_factor;
  std::optional<double> high_freq_factor;
  std::optional<int64_t> original_max_position_embeddings;

  void visit(Fields& fields);
};

/// Either a folder, or the shape in config.json's own keys; unset ones follow Hugging Face's rules.
struct ModelSection {
  ModelInit init = ModelInit::kScratch;
  std::string path;
  ModelFamily model_type = ModelFamily::kLlama;
  std::optional<int64_t> vocab_size;
  std::optional<int64_t> hidden_size;
  std::optional<int64_t> intermediate_size;
  std::optional<int64_t> num_hidden_layers;
  std::optional<int64_t> num_attention_heads;
  std::optional<int64_t> num_key_value_heads;
  std::optional<int64_t> head_dim;
  std::optional<int64_t> max_position_embeddings;
  std::optional<double> rms_norm_eps;
  std::optional<double> initializer_range;
  Positions positions = Positions::kRope;
  std::optional<double> rope_theta;
  std::optional<bool> tie_word_embeddings;
  std::optional<bool> attention_bias;
  std::optional<bool> mlp_bias;
  std::optional<int64_t> sliding_window;
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> eos_token_id;
  std::optional<int64_t> pad_token_id;
  RopeScalingSection rope_scaling;

  void visit(Fields& fields);
};

struct DataSection {
  DataSource source = DataSource::kShards;
  std::string path;
  std::string eval_path;
  std::string tokenizer;
  int64_t seq_len = 1024;
  Packing packing = Packing::kDocuments;
  int64_t workers = 1;
  bool verify = true;

  void visit(Fields& fields);
};

struct TrainSection {
  int64_t steps = 400;
  int64_t micro_batch = 16;
  int64_t accumulation = 1;
  int64_t eval_every = 0;
  int64_t eval_batches = 16;
  int64_t log_every = 1;
  int64_t nan_limit = 10;
  double spike_factor = 0.0;
  double z_loss = 0.0;
  int64_t sample_every = 0;
  std::string sample_prompt;
  int64_t sample_tokens = 128;
  double sample_temperature = 0.8;
  int64_t head_chunk_rows = 0;

  void visit(Fields& fields);
};

struct OptimSection {
  OptimKind name = OptimKind::kAdamW;
  double lr = 3e-4;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;
  DType moments = DType::kF32;

  void visit(Fields& fields);
};

struct ScheduleSection {
  ScheduleKind name = ScheduleKind::kCosine;
  int64_t warmup = 0;
  double final_fraction = 0.1;
  double decay_fraction = 0.2;

  void visit(Fields& fields);
};

struct PrecisionSection {
  DType compute = DType::kBF16;
  ResidualPrecision residual = ResidualPrecision::kCompute;
  MasterWeights master = MasterWeights::kF32;
  MatmulPrecision matmul = MatmulPrecision::kCompute;
  Fp8Gradient fp8_gradient = Fp8Gradient::kE4M3;
  Fp8Scaling fp8_scaling = Fp8Scaling::kTensor;
  AttentionPrecision attention = AttentionPrecision::kCompute;
  RopePrecision rope = RopePrecision::kF32;
  DType gradient = DType::kF32;

  void visit(Fields& fields);
  DType residual_dtype() const;
};

struct MemorySection {
  std::string budget = "auto";
  Recompute recompute = Recompute::kNone;
  int64_t recompute_every = 2;
  Offload offload = Offload::kNone;
  PackedCopies packed_copies = PackedCopies::kAuto;

  void visit(Fields& fields);
  /// nullopt for "auto". Throws ConfigError on text that is no size.
  std::optional<int64_t> budget_bytes() const;
};

struct DeviceSection {
  DeviceKind kind = DeviceKind::kAuto;
  int64_t threads = 0;
  std::string isa = "auto";
  std::string matmul_search = "quick";
  std::string tuning_file = "auto";
  bool debug_sync = false;
  int64_t verify_every = 0;

  void visit(Fields& fields);
};

struct CheckpointSection {
  int64_t every = 0;
  int64_t keep_last = 2;
  int64_t keep_every = 0;
  bool at_end = true;
  bool async = true;
  SaveSignal signal = SaveSignal::kNone;
  std::string resume = "auto";

  void visit(Fields& fields);
};

struct MeterSection {
  std::string grid = "US";
  std::optional<double> grid_intensity;
  double pue = 1.0;
  std::optional<double> price_per_kwh;
  std::optional<double> cpu_idle_watts;
  std::optional<double> cpu_watts_per_core;
  std::optional<double> watts_per_gib;
  std::optional<double> peak_tflops;
  int64_t timeline_every = 50;

  void visit(Fields& fields);
};

/// What only the planner counts.
struct CostSection {
  std::optional<double> market_intensity;
  std::string market_source;
  double data = 0;
  double labels = 0;
  double lifetime_years = 4;
  double device_mtbf_hours = 50000;
  double restart_seconds = 600;

  void visit(Fields& fields);
};

struct ClusterSection {
  int64_t gpus = 1;
  int64_t nodes = 1;
  int64_t dp = 0;
  int64_t tp = 1;
  int64_t pp = 1;
  std::vector<int64_t> pp_layers;
  int64_t vpp = 1;
  int64_t cp = 1;
  int64_t ep = 1;
  std::string hardware = "h200";

  void visit(Fields& fields);
  /// dp, or what the other axes leave of `gpus` when it is 0.
  int64_t data_parallel() const;
  /// Ranks with the same weights: data-parallel ones, each as many as share its micro-batches.
  int64_t reducing_ranks() const { return data_parallel() * cp; }
};

struct DistributionSection {
  int64_t zero = 1;
  int64_t tensor_stretches = 2;
  int64_t sync_small_every = 1;
  Compression compression = Compression::kNone;
  bool error_feedback = true;
  int64_t verify_every = 0;
  bool graphs = false;
  ReductionLevels reduction = ReductionLevels::kAuto;
  HostTiersChoice tiers = HostTiersChoice::kAuto;
  int64_t multicast_below = 1000000;
  int64_t one_sided_below = 10000000;
  int64_t timeout_seconds = 600;
  int64_t record_calls = 0;
  bool at_one_rank = false;
  bool elastic = false;
  int64_t max_restarts = 3;
  std::string secret_file;

  void visit(Fields& fields);
};

struct RunConfig {
  Task task = Task::kPretrain;
  int64_t seed = 1;
  bool deterministic = true;
  std::string out;
  ModelSection model;
  DataSection data;
  TrainSection train;
  OptimSection optim;
  ScheduleSection schedule;
  PrecisionSection precision;
  MemorySection memory;
  DeviceSection device;
  CheckpointSection checkpoint;
  MeterSection meter;
  CostSection cost;
  ClusterSection cluster;
  DistributionSection distribution;

  void visit(Fields& fields);

  /// Sequences of one optimizer step over the whole run.
  int64_t sequences_per_step() const {
    return std::max<int64_t>(train.micro_batch, 1) * train.accumulation * cluster.data_parallel();
  }
  /// Whether this is a run of ranks that talk to each other, or of one that talks to itself.
  bool meets_ranks() const { return cluster.gpus > 1 || distribution.at_one_rank; }
  int64_t tokens_per_step() const { return sequences_per_step() * data.seq_len; }

  /// Throws ConfigError for settings that contradict each other or are missing; touches no file and allocates nothing.
  /// Ranges of single fields were checked when they were read.
  void validate() const;
  /// One sentence for each setting that has no effect beside the others, for a warning.
  std::vector<std::string> ignored_settings() const;
};

/// "24GiB", "1.5 TB", "1000000": bytes. Throws ConfigError naming `key` on text that is no size.
int64_t parse_size(std::string_view key, const std::string& text);

/// The model that init = "scratch" describes, checked. Throws ConfigError naming the key that is missing or wrong.
ModelConfig scratch_model_config(const RunConfig& config);

}  // namespace litespark
