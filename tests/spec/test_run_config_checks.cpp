// SPDX-License-Identifier: Apache-2.0
// Contradictions are refused with the key's name, before anything is allocated; derived values are what HF would say.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <variant>

#include "core/error.h"
#include "spec/run_config.h"
#include "support/error_text.h"

namespace litespark {
namespace {

RunConfig small_run() {
  RunConfig config;
  config.data.source = DataSource::kSynthetic;
  config.data.seq_len = 64;
  config.model.vocab_size = 128;
  config.model.hidden_size = 64;
  config.model.intermediate_size = 172;
  config.model.num_hidden_layers = 2;
  config.model.num_attention_heads = 4;
  return config;
}

std::string refusal(const std::function<void(RunConfig&)>& change) {
  RunConfig config = small_run();
  change(config);
  return error_text<ConfigError>([&] { config.validate(); });
}

void expect_accepted(const std::function<void(RunConfig&)>& change) {
  RunConfig config = small_run();
  change(config);
  EXPECT_NO_THROW(config.validate());
}

TEST(RunConfigChecks, AnglesAreRoundedOnlyWhereThereAreSome) {
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.precision.rope = RopePrecision::kF16;
                         c.model.positions = Positions::kAlibi;
                       }),
                       "precision.rope"));
  RunConfig config = small_run();
  config.precision.rope = RopePrecision::kBF16;
  EXPECT_NO_THROW(config.validate());
  EXPECT_EQ(scratch_model_config(config).rope.precision, RopePrecision::kBF16);
}

TEST(RunConfigChecks, ASmallRunIsAccepted) {
  EXPECT_NO_THROW(small_run().validate());
  EXPECT_TRUE(small_run().ignored_settings().empty());
}

TEST(RunConfigChecks, MissingPathsAreNamed) {
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.init = ModelInit::kFolder; }), "model.path"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.data.source = DataSource::kShards; }), "data.path"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.data.source = DataSource::kText; }), "data.path"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.data.source = DataSource::kText;
                         c.data.path = "a.txt";
                         c.train.eval_every = 10;
                       }),
                       "data.eval_path"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.train.sample_every = 10; }), "data.tokenizer"));
}

TEST(RunConfigChecks, ContradictionsAreNamed) {  // fault:F5
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.optim.betas = {0.9}; }), "optim.betas"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.schedule.warmup = 401; }), "schedule.warmup"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.schedule.name = ScheduleKind::kWsd;
                         c.schedule.warmup = 200;
                         c.schedule.decay_fraction = 0.6;
                       }),
                       "schedule.decay_fraction"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.train.spike_factor = 0.5; }), "train.spike_factor"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.deterministic = false;
                         c.device.verify_every = 100;
                       }),
                       "device.verify_every"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.precision.compute = DType::kF32;
                         c.precision.residual = ResidualPrecision::kBF16;
                       }),
                       "precision.residual"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.precision.compute = DType::kF32;
                         c.precision.master = MasterWeights::kBF16Remainder;
                       }),
                       "precision.master"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.precision.compute = DType::kF32;
                         c.precision.gradient = DType::kBF16;
                       }),
                       "precision.gradient"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.precision.compute = DType::kF32;
                         c.precision.matmul = MatmulPrecision::kFp8;
                       }),
                       "precision.matmul"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.precision.compute = DType::kF32;
                         c.precision.attention = AttentionPrecision::kFp8;
                       }),
                       "precision.attention"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.precision.gradient = DType::kBF16;
                         c.train.accumulation = 2;
                       }),
                       "train.accumulation = 2"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.memory.offload = Offload::kActivations; }), "memory.offload"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.checkpoint.every = 10;
                         c.checkpoint.keep_every = 25;
                       }),
                       "checkpoint.keep_every"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.max_position_embeddings = 32; }), "data.seq_len"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.eos_token_id = 128; }), "model.eos_token_id"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.num_attention_heads = 3; }), "num_attention_heads"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.model.num_key_value_heads = 3; }), "num_key_value_heads"));
}

TEST(RunConfigChecks, SeveralRanksRefuseWhatOneAloneCanDo) {
  const auto two_ranks = [](const std::function<void(RunConfig&)>& change) {
    return [change](RunConfig& c) {
      c.cluster.gpus = 2;
      change(c);
    };
  };
  EXPECT_TRUE(contains(refusal(two_ranks([](RunConfig& c) { c.distribution.graphs = true; })), "distribution.graphs"));
  EXPECT_TRUE(contains(refusal(two_ranks([](RunConfig& c) {
                         c.distribution.record_calls = 5;
                         c.device.kind = DeviceKind::kCuda;
                       })),
                       "distribution.record_calls"));
  expect_accepted(two_ranks([](RunConfig& c) { c.distribution.record_calls = 5; }));
  EXPECT_TRUE(contains(refusal(two_ranks([](RunConfig& c) { c.device.verify_every = 5; })), "device.verify_every"));
  RunConfig config = small_run();
  config.distribution.graphs = true;
  config.validate();
  ASSERT_EQ(config.ignored_settings().size(), 1U);
  EXPECT_TRUE(contains(config.ignored_settings().front(), "distribution.graphs"));
  config.cluster.gpus = 2;
  config.meter.timeline_every = 0;
  config.validate();
  EXPECT_TRUE(config.ignored_settings().empty());
  EXPECT_TRUE(contains(refusal(two_ranks([](RunConfig& c) {
                         c.distribution.graphs = true;
                         c.meter.timeline_every = 0;
                         c.distribution.reduction = ReductionLevels::kHierarchical;
                       })),
                       "distribution.reduction"));
  EXPECT_TRUE(contains(refusal(two_ranks([](RunConfig& c) { c.distribution.multicast_below = 10000000; })),
                       "distribution.one_sided_below"));
  RunConfig alone = small_run();
  alone.distribution.multicast_below = 5;
  ASSERT_EQ(alone.ignored_settings().size(), 1U);
  EXPECT_TRUE(contains(alone.ignored_settings().front(), "distribution.tiers"));
  alone = small_run();
  alone.distribution.reduction = ReductionLevels::kFlat;
  ASSERT_EQ(alone.ignored_settings().size(), 1U);
  EXPECT_TRUE(contains(alone.ignored_settings().front(), "distribution.reduction"));
}

TEST(RunConfigChecks, InterleavedStagesWantWholeRoundsOfMicroBatches) {
  const auto interleaved = [](int64_t stages, int64_t accumulation, int64_t micro_batch) {
    return [=](RunConfig& c) {
      c.cluster.gpus = c.cluster.pp = stages;
      c.cluster.vpp = 2;
      c.train.accumulation = accumulation;
      c.train.micro_batch = micro_batch;
    };
  };
  const std::string text = refusal(interleaved(2, 3, 4));
  EXPECT_TRUE(contains(text, "[cluster.vpp]")) << text;
  EXPECT_TRUE(contains(text, "got train.accumulation = 3, expected a multiple of 2")) << text;
  EXPECT_TRUE(contains(refusal(interleaved(1, 3, 4)), "needs several pipeline stages"));
  expect_accepted(interleaved(2, 4, 4));
  expect_accepted(interleaved(2, 3, 0));  // sequences, which the memory plan cuts into micro-batches
}

TEST(RunConfigChecks, LayersOfStagesAreAsManyNumbersAsStages) {
  const auto with_layers = [](int64_t stages, const std::vector<int64_t>& layers) {
    return [=](RunConfig& c) {
      c.cluster.gpus = c.cluster.pp = stages;
      c.cluster.pp_layers = layers;
    };
  };
  expect_accepted(with_layers(2, {}));
  expect_accepted(with_layers(2, {1, 1}));
  const std::string text = refusal(with_layers(2, {1, 1, 1}));
  EXPECT_TRUE(contains(text, "[cluster.pp_layers]")) << text;
  EXPECT_TRUE(contains(text, "got 3 numbers, expected cluster.pp x cluster.vpp = 2 of them")) << text;
  EXPECT_TRUE(contains(refusal(with_layers(2, {2, 0})), "[cluster.pp_layers] leaves a stage without a layer"));
  RunConfig config = small_run();
  const Fields fields = Fields::of(config);
  const std::string zero =
      error_text<ConfigError>([&] { assign_text(*fields.find("cluster.pp_layers"), "2,0", "command line"); });
  EXPECT_TRUE(contains(zero, "cluster.pp_layers] out of range; got [2.0, 0.0]")) << zero;
}

TEST(RunConfigChecks, MessagesIn16BitsRoundF32GradientsAndGoFromRankToRank) {
  const auto compressed = [](const std::function<void(RunConfig&)>& change) {
    return refusal([&](RunConfig& c) {
      c.cluster.gpus = 2;
      c.distribution.compression = Compression::kFP16;
      change(c);
    });
  };
  expect_accepted([](RunConfig& c) {
    c.cluster.gpus = 2;
    c.distribution.compression = Compression::kFP16;
  });
  EXPECT_TRUE(
      contains(compressed([](RunConfig& c) { c.precision.gradient = DType::kBF16; }), "[distribution.compression]"));
  EXPECT_TRUE(contains(compressed([](RunConfig& c) { c.distribution.reduction = ReductionLevels::kHierarchical; }),
                       "[distribution.reduction]"));
  RunConfig config = small_run();
  config.distribution.compression = Compression::kBF16;
  ASSERT_EQ(config.ignored_settings().size(), 1U);
  EXPECT_TRUE(contains(config.ignored_settings().front(), "distribution.compression"));
  config = small_run();
  config.distribution.error_feedback = false;
  ASSERT_EQ(config.ignored_settings().size(), 1U);
  EXPECT_TRUE(contains(config.ignored_settings().front(), "distribution.error_feedback"));
}

TEST(RunConfigChecks, NobodyLooksAtAModelOfWhichRanksHaveCopiesThatDiffer) {
  const auto with_copies = [](int64_t ranks, const std::function<void(RunConfig&)>& change) {
    return refusal([&](RunConfig& c) {
      c.cluster.gpus = ranks;
      c.distribution.sync_small_every = 5;
      change(c);
    });
  };
  EXPECT_TRUE(contains(with_copies(2, [](RunConfig& c) { c.train.eval_every = 12; }), "train.eval_every"));
  EXPECT_TRUE(contains(with_copies(2, [](RunConfig& c) { c.checkpoint.every = 4; }), "checkpoint.every"));
  EXPECT_TRUE(contains(with_copies(2, [](RunConfig& c) { c.train.sample_every = 7; }), "train.sample_every"));
  EXPECT_TRUE(contains(with_copies(2, [](RunConfig& c) { c.distribution.verify_every = 8; }), "verify_every"));
  RunConfig config = small_run();
  config.cluster.gpus = 2;
  config.distribution.sync_small_every = 5;
  config.train.eval_every = 10;
  config.checkpoint.every = 5;
  config.validate();
  EXPECT_TRUE(config.ignored_settings().empty());
  config.cluster.gpus = 1;
  config.train.eval_every = 12;
  config.validate();
  ASSERT_EQ(config.ignored_settings().size(), 1U);
  EXPECT_TRUE(contains(config.ignored_settings().front(), "distribution.sync_small_every"));
}

TEST(RunConfigChecks, OneRankIsHeldAgainstNobody) {
  RunConfig config = small_run();
  config.distribution.verify_every = 10;
  config.validate();
  ASSERT_EQ(config.ignored_settings().size(), 1U);
  EXPECT_TRUE(contains(config.ignored_settings().front(), "distribution.verify_every"));
  config.cluster.gpus = 2;
  config.validate();
  EXPECT_TRUE(config.ignored_settings().empty());
}

/// Keys that a run of one data rank has no use for and one of two data ranks, context ranks included, has.
void set_options_of_data_ranks(RunConfig& config) {
  config.distribution.zero = 2;
  config.distribution.verify_every = 10;
  config.distribution.compression = Compression::kBF16;
  config.distribution.error_feedback = false;
}

std::vector<std::string> ignored_keys(const RunConfig& config) {
  std::vector<std::string> keys;
  for (const std::string& text : config.ignored_settings()) keys.push_back(text.substr(0, text.find(':')));
  return keys;
}

TEST(RunConfigChecks, TensorRanksAndStagesAloneShareNoGradientsAndContextRanksDo) {
  const std::vector<std::string> all = {"distribution.zero", "distribution.verify_every", "distribution.compression",
                                        "distribution.error_feedback"};
  for (int64_t ClusterSection::*const axis : {&ClusterSection::tp, &ClusterSection::pp}) {
    RunConfig config = small_run();
    set_options_of_data_ranks(config);
    config.cluster.gpus = config.cluster.*axis = 2;
    config.validate();
    EXPECT_EQ(ignored_keys(config), all);
    config.cluster.gpus = 4;
    config.validate();
    EXPECT_TRUE(ignored_keys(config).empty());
  }
  RunConfig config = small_run();
  set_options_of_data_ranks(config);
  config.cluster.gpus = config.cluster.cp = 2;
  config.validate();
  EXPECT_TRUE(ignored_keys(config).empty());
}

TEST(RunConfigChecks, WhatOneRankHasNoLinkForIsNamed) {
  RunConfig config = small_run();
  config.distribution.tiers = HostTiersChoice::kArticle;
  config.distribution.timeout_seconds = 5;
  config.distribution.tensor_stretches = 4;
  config.distribution.max_restarts = 9;
  config.validate();
  EXPECT_EQ(ignored_keys(config),
            (std::vector<std::string>{"distribution.tiers", "distribution.timeout_seconds",
                                      "distribution.tensor_stretches", "distribution.max_restarts"}));
  config.cluster.gpus = config.cluster.tp = 2;
  config.distribution.elastic = true;
  config.validate();
  EXPECT_TRUE(ignored_keys(config).empty());
  config.distribution.graphs = true;
  config.meter.timeline_every = 0;
  config.device.kind = DeviceKind::kCpu;
  EXPECT_EQ(ignored_keys(config), std::vector<std::string>{"distribution.graphs"});
}

TEST(RunConfigChecks, OneRankThatMeetsItselfIsHeldToTheRulesOfSeveral) {
  const auto alone = [](const std::function<void(RunConfig&)>& change) {
    return [change](RunConfig& c) {
      c.distribution.at_one_rank = true;
      change(c);
    };
  };
  expect_accepted(alone([](RunConfig&) {}));
  EXPECT_TRUE(contains(refusal(alone([](RunConfig& c) { c.device.verify_every = 5; })), "device.verify_every"));
  EXPECT_TRUE(contains(refusal(alone([](RunConfig& c) { c.distribution.graphs = true; })), "distribution.graphs"));
  RunConfig config = small_run();
  config.distribution.at_one_rank = true;
  config.distribution.timeout_seconds = 5;
  EXPECT_TRUE(ignored_keys(config).empty());
  config.cluster.gpus = 2;
  EXPECT_EQ(ignored_keys(config), std::vector<std::string>{"distribution.at_one_rank"});
}

TEST(RunConfigChecks, ClusterAxesMustMakeUpTheDevices) {
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.cluster.tp = 2; }), "cluster"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.cluster.gpus = 8;
                         c.cluster.dp = 3;
                       }),
                       "cluster"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.cluster.gpus = 8;
                         c.cluster.nodes = 3;
                       }),
                       "cluster.nodes"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.cluster.gpus = 8;
                         c.cluster.ep = 3;
                       }),
                       "cluster.ep"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) { c.cluster.tp = c.cluster.pp = c.cluster.cp = 1 << 20; }), "cluster"));
  EXPECT_TRUE(contains(
      refusal([](RunConfig& c) { c.cluster.dp = c.cluster.tp = c.cluster.pp = c.cluster.cp = 1 << 20; }), "cluster"));
  RunConfig config = small_run();
  config.cluster.gpus = 16;
  config.cluster.tp = 2;
  config.cluster.pp = 2;
  config.validate();
  EXPECT_EQ(config.cluster.data_parallel(), 4);
  config.train.accumulation = 3;
  EXPECT_EQ(config.sequences_per_step(), 16 * 3 * 4);
  EXPECT_EQ(config.tokens_per_step(), 16 * 3 * 4 * 64);
}

TEST(RunConfigChecks, BudgetsAreAutoOrASize) {
  MemorySection memory;
  EXPECT_EQ(memory.budget_bytes(), std::nullopt);
  const auto bytes = [&](const char* text) {
    memory.budget = text;
    return memory.budget_bytes();
  };
  EXPECT_EQ(bytes("24GiB"), int64_t{24} << 30);
  EXPECT_EQ(bytes("1.5 GB"), 1500000000);
  EXPECT_EQ(bytes("512MiB"), int64_t{512} << 20);
  EXPECT_EQ(bytes("4096"), 4096);
  for (const char* text : {"", "lots", "24gib", "-1GiB", "0", "1e300TiB", "nan", "24GiB!"}) {
    memory.budget = text;
    EXPECT_THROW(memory.budget_bytes(), ConfigError) << text;
  }
}

TEST(RunConfigChecks, SettingsWithoutEffectAreNamed) {
  RunConfig config = small_run();
  config.model.path = "somewhere";
  config.data.path = "x";
  config.train.sample_prompt = "Once";
  config.memory.recompute_every = 7;
  config.schedule.decay_fraction = 0.5;
  config.data.eval_path = "y";
  EXPECT_EQ(config.ignored_settings().size(), 6u);
  config.model.init = ModelInit::kFolder;
  EXPECT_EQ(config.ignored_settings().front(), "model.vocab_size: the folder's config.json decides");
}

TEST(RunConfigChecks, TheResidualFollowsTheComputeType) {
  PrecisionSection precision;
  EXPECT_EQ(precision.residual_dtype(), DType::kBF16);
  precision.compute = DType::kF32;
  EXPECT_EQ(precision.residual_dtype(), DType::kF32);
  precision.compute = DType::kBF16;
  precision.residual = ResidualPrecision::kF32;
  EXPECT_EQ(precision.residual_dtype(), DType::kF32);
}

TEST(RunConfigChecks, ARunOfMoreTokensThanCanBeCountedIsRefused) {
  EXPECT_TRUE(
      contains(refusal([](RunConfig& c) { c.train.steps = int64_t{1} << 62; }),
               "[train.steps] gives a run of more tokens than can be counted; got 4611686018427387904, expected "
               "fewer than 2^63 in all, of 1024 a step"));
  EXPECT_TRUE(contains(refusal([](RunConfig& c) {
                         c.train.micro_batch = c.train.accumulation = 1 << 20;
                         c.cluster.gpus = 1 << 20;
                       }),
                       "[train.accumulation] gives a step of more tokens than can be counted"));
}

TEST(RunConfigChecks, NoFigureOfARunFileIsSoLargeOrSmallThatSumsPassEveryNumber) {
  RunConfig config;
  const Fields fields = Fields::of(config);
  for (const Field& field : fields.list()) {
    const bool is_number =
        std::holds_alternative<double*>(field.value) || std::holds_alternative<std::optional<double>*>(field.value);
    if (!is_number) continue;
    EXPECT_TRUE(contains(error_text<ConfigError>([&] { assign(field, 1e300, "run.toml"); }), "out of range"))
        << field.path;
  }
}

}  // namespace
}  // namespace litespark
