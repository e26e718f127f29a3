// SPDX-License-Identifier: Apache-2.0
// `litespark train --gpus N` in every layout, each taken up by others, and ranks that are killed: who names whom, and
// who goes on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/launched_ranks.h"
#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

/// That the run in `out`, with `settings`, has the curves of `expected` and the memory that `plan` prints for it.
void expect_curves_and_planned_memory(const SmallRun& run, const std::string& out,
                                      const std::vector<std::string>& settings, const std::string& expected) {
  for (const char* key : {"loss", "eval_loss", "tokens", "grad_norm"}) {
    expect_near(values_of(run.text(out + "/metrics.jsonl"), key), values_of(expected, key));
  }
  std::vector<std::string> plan = {"plan", "small.toml", "--json", "--hardware=h200"};
  plan.insert(plan.end(), settings.begin(), settings.end());
  const std::string planned = run_litespark(plan, run.path("").string()).output;
  EXPECT_EQ(values_of(planned, "total_bytes"), values_of(run.text(out + "/memory.json"), "total_bytes")) << planned;
  EXPECT_EQ(values_of(planned, "total_bytes").size(), 1u);
}

// A host of eight: whatever they share, the run of one, and each rank's memory as planned.
TEST(TrainRanks, EightInAnyLayoutAreTheRunOfOneInThePlannedMemory) {
  const SmallRun run;
  const std::vector<std::string> common = {"--model.num_attention_heads=8", "--model.hidden_size=64",
                                           "--model.num_hidden_layers=2",   "--data.seq_len=32",
                                           "--train.eval_every=3",          "--train.eval_batches=8"};
  const auto with_common = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), common.begin(), common.end());
    return settings;
  };
  const auto train = [&](const std::string& out, const std::vector<std::string>& settings) {
    std::vector<std::string> all = with_common(settings);
    all.push_back("--out=" + out);
    return run.train(all);
  };
  ASSERT_EQ(train("one", {"--train.accumulation=8"}).exit_code, 0);
  const std::string expected = run.text("one/metrics.jsonl");
  const std::vector<std::vector<std::string>> layouts = {
      {},
      {"--distribution.zero=2"},
      {"--cluster.tp=2", "--train.accumulation=2"},
      {"--cluster.tp=4", "--train.accumulation=4"},
      {"--cluster.tp=8", "--train.accumulation=8"},
      {"--cluster.pp=2", "--train.accumulation=2"},
      {"--cluster.cp=4", "--train.accumulation=4"},
      {"--cluster.tp=2", "--cluster.pp=2", "--train.accumulation=4"},
      {"--cluster.tp=2", "--cluster.cp=2", "--train.accumulation=4", "--distribution.zero=2"}};
  for (size_t i = 0; i < layouts.size(); ++i) {
    std::vector<std::string> settings = layouts[i];
    settings.emplace_back("--gpus=8");
    std::string name = "eight";
    for (const std::string& setting : layouts[i]) name += " " + setting;
    SCOPED_TRACE(name);
    const std::string out = "eight-" + std::to_string(i);
    const ProgramResult eight = train(out, settings);
    if (contains(eight.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
    ASSERT_EQ(eight.exit_code, 0) << eight.errors << eight.output;
    expect_curves_and_planned_memory(run, out, with_common(settings), expected);
  }
}

// Real processes that share weights: the run of one, whatever of it is shared, and the plan that was printed for it.
TEST(TrainRanks, ShareWeightsAndAnyLayoutTakesTheRunUp) {
  const SmallRun run;
  const std::vector<std::string> common = {"--train.eval_every=3", "--train.eval_batches=3", "--checkpoint.every=3"};
  const auto train = [&](const std::string& out, std::vector<std::string> settings) {
    settings.insert(settings.end(), common.begin(), common.end());
    settings.push_back("--out=" + out);
    return run.train(settings);
  };
  const std::vector<std::string> tensor = {"--gpus=2", "--cluster.tp=2", "--train.accumulation=2"};
  const ProgramResult several = train("tensor", tensor);
  if (contains(several.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  ASSERT_EQ(several.exit_code, 0) << several.errors << several.output;
  ASSERT_EQ(train("one", {"--train.accumulation=2"}).exit_code, 0);
  const std::string expected = run.text("one/metrics.jsonl");
  expect_curves_and_planned_memory(run, "tensor", tensor, expected);

  for (const auto& [name, settings] : {std::pair<std::string, std::vector<std::string>>{
                                           "both", {"--gpus=4", "--cluster.tp=2", "--distribution.zero=2"}},
                                       {"data alone", {"--gpus=2"}},
                                       {"again one", {"--train.accumulation=2"}}}) {
    std::filesystem::copy(run.path("tensor"), run.path(name), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(run.path(name + "/checkpoints/step-6"));
    const ProgramResult resumed = train(name, settings);
    ASSERT_EQ(resumed.exit_code, 0) << name << resumed.errors;
    EXPECT_TRUE(contains(resumed.output, "continuing after step 3")) << resumed.output;
    expect_near(values_of(run.text(name + "/metrics.jsonl"), "loss"), values_of(expected, "loss"));
  }
}

// Real processes that hold different layers: the run of one, the plan that was printed for it, and the same
// checkpoints.
TEST(TrainRanks, HoldDifferentLayersAndAnyLayoutTakesTheRunUp) {
  const SmallRun run;
  const std::vector<std::string> common = {"--model.num_hidden_layers=4", "--train.eval_every=3",
                                           "--train.eval_batches=3", "--checkpoint.every=3"};
  const auto train = [&](const std::string& out, std::vector<std::string> settings) {
    settings.insert(settings.end(), common.begin(), common.end());
    settings.push_back("--out=" + out);
    return run.train(settings);
  };
  const std::vector<std::string> pipeline = {"--gpus=2", "--cluster.pp=2", "--train.accumulation=4"};
  const ProgramResult several = train("stages", pipeline);
  if (contains(several.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  ASSERT_EQ(several.exit_code, 0) << several.errors << several.output;
  EXPECT_TRUE(contains(several.output, "pipeline stage")) << several.output;
  ASSERT_EQ(train("one", {"--train.accumulation=4"}).exit_code, 0);
  const std::string expected = run.text("one/metrics.jsonl");
  for (const char* key : {"loss", "eval_loss", "tokens", "grad_norm"}) {
    expect_near(values_of(run.text("stages/metrics.jsonl"), key), values_of(expected, key));
  }
  std::vector<std::string> plan = {"plan", "small.toml", "--json", "--hardware=h200", "--model.num_hidden_layers=4"};
  plan.insert(plan.end(), pipeline.begin(), pipeline.end());
  const std::string planned = run_litespark(plan, run.path("").string()).output;
  const double first_stage = values_of(planned.substr(planned.find("\"stages\"")), "persistent_bytes").at(0);
  EXPECT_EQ(first_stage, values_of(run.text("stages/memory.json"), "persistent_bytes").at(0)) << planned;

  for (const auto& [name, settings] :
       {std::pair<std::string, std::vector<std::string>>{"both",
                                                         {"--gpus=4", "--cluster.pp=2", "--train.accumulation=2"}},
        {"interleaved", {"--gpus=2", "--cluster.pp=2", "--cluster.vpp=2", "--train.accumulation=4"}},
        {"of other lengths", {"--gpus=2", "--cluster.pp=2", "--cluster.pp_layers=3,1", "--train.accumulation=4"}},
        {"data alone", {"--gpus=2", "--train.accumulation=2"}},
        {"again one", {"--train.accumulation=4"}}}) {
    std::filesystem::copy(run.path("stages"), run.path(name), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(run.path(name + "/checkpoints/step-6"));
    const ProgramResult resumed = train(name, settings);
    ASSERT_EQ(resumed.exit_code, 0) << name << resumed.errors;
    EXPECT_TRUE(contains(resumed.output, "continuing after step 3")) << resumed.output;
    expect_near(values_of(run.text(name + "/metrics.jsonl"), "loss"), values_of(expected, "loss"));
  }
}

// Real processes that share the tokens of each micro-batch: the run of one, the plan that was printed for it, and the
// same checkpoints.
TEST(TrainRanks, ShareTokensAndAnyLayoutTakesTheRunUp) {
  const SmallRun run;
  const std::vector<std::string> common = {"--train.eval_every=3", "--train.eval_batches=3", "--checkpoint.every=3"};
  const auto train = [&](const std::string& out, std::vector<std::string> settings) {
    settings.insert(settings.end(), common.begin(), common.end());
    settings.push_back("--out=" + out);
    return run.train(settings);
  };
  const std::vector<std::string> context = {"--gpus=2", "--cluster.cp=2", "--train.accumulation=2"};
  const ProgramResult several = train("context", context);
  if (contains(several.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  ASSERT_EQ(several.exit_code, 0) << several.errors << several.output;
  ASSERT_EQ(train("one", {"--train.accumulation=2"}).exit_code, 0);
  const std::string expected = run.text("one/metrics.jsonl");
  expect_curves_and_planned_memory(run, "context", context, expected);

  for (const auto& [name, settings] :
       {std::pair<std::string, std::vector<std::string>>{
            "of tensor ranks", {"--gpus=4", "--cluster.cp=2", "--cluster.tp=2", "--train.accumulation=2"}},
        {"beside another", {"--gpus=4", "--cluster.cp=2", "--distribution.zero=2"}},
        {"again one", {"--train.accumulation=2"}}}) {
    std::filesystem::copy(run.path("context"), run.path(name), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(run.path(name + "/checkpoints/step-6"));
    const ProgramResult resumed = train(name, settings);
    ASSERT_EQ(resumed.exit_code, 0) << name << resumed.errors;
    EXPECT_TRUE(contains(resumed.output, "continuing after step 3")) << resumed.output;
    expect_near(values_of(run.text(name + "/metrics.jsonl"), "loss"), values_of(expected, "loss"));
  }
}

// Processes that tell each other gradients in 16 bits go on after a save as if there had been none; one alone says
// what it has no use for.
TEST(TrainRanks, RoundedGradientsResumeInTheSameBitsAndOneRankSaysWhatItDrops) {
  const SmallRun run;
  const auto train = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> settings = {"--distribution.compression=fp16", "--checkpoint.every=3", "--out=" + out};
    settings.insert(settings.end(), more.begin(), more.end());
    return run.train(settings);
  };
  const ProgramResult whole = train("whole", {"--gpus=3", "--train.accumulation=2"});
  if (contains(whole.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  ASSERT_EQ(whole.exit_code, 0) << whole.errors << whole.output;
  for (const char* name : {"resumed", "alone"}) {
    std::filesystem::copy(run.path("whole"), run.path(name), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(run.path(std::string(name) + "/checkpoints/step-6"));
  }
  ASSERT_EQ(train("resumed", {"--gpus=3", "--train.accumulation=2"}).exit_code, 0);
  const std::string expected = run.text("whole/metrics.jsonl");
  for (const char* key : {"loss", "grad_norm"}) {
    EXPECT_EQ(values_of(run.text("resumed/metrics.jsonl"), key), values_of(expected, key)) << key;
  }
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "residual.safetensors"}) {
    const std::string name = std::string("/checkpoints/step-6/") + file;
    EXPECT_TRUE(run.exists("whole" + name)) << file;
    EXPECT_TRUE(run.text("resumed" + name) == run.text("whole" + name)) << file;
  }
  ASSERT_EQ(run.train({"--gpus=3", "--train.accumulation=2", "--out=plain"}).exit_code, 0);
  const std::vector<double> plain = values_of(run.text("plain/metrics.jsonl"), "loss");
  const std::vector<double> found = values_of(expected, "loss");
  ASSERT_EQ(found.size(), plain.size());
  EXPECT_NE(found, plain);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(found[i], plain[i], 1e-3 * plain[i]);
  const ProgramResult alone = train("alone", {"--train.accumulation=6"});
  ASSERT_EQ(alone.exit_code, 0) << alone.errors;
  EXPECT_TRUE(contains(alone.errors, "had not told each other of their gradients")) << alone.errors;
  const ProgramResult other = run.train({"--gpus=3", "--train.accumulation=2", "--out=whole"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(contains(other.errors, "compression")) << other.errors;
}

/// Whether it comes within a minute.
bool await(const std::function<bool()>& event) {
  for (int i = 0; i < 6000; ++i) {
    if (event()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// fault:B4
TEST(TrainRanks, AnElasticRunGoesOnWithoutAKilledRankAndEndsAsIfThereHadBeenNone) {
  const SmallRun run;
  const std::vector<std::string> common = {"--train.steps=600", "--checkpoint.every=25", "--train.log_every=1"};
  std::vector<std::string> settings = {"--gpus=3", "--train.accumulation=2", "--distribution.elastic=true"};
  settings.insert(settings.end(), common.begin(), common.end());
  const ProgramResult probe = run.train({"--gpus=2", "--train.steps=1", "--out=probe"});
  if (contains(probe.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  const auto program = run.start("elastic", settings);
  ASSERT_TRUE(await([&] { return run.exists("elastic/checkpoints/step-25/COMPLETE"); }));
  const std::vector<pid_t> ranks = program->children();
  ASSERT_EQ(ranks.size(), 3U);
  ASSERT_EQ(kill(ranks[1], SIGKILL), 0);
  const ProgramResult result = program->wait();
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_TRUE(contains(result.output, "was lost; start 2 with 2 ranks and train.accumulation = 3, after step "))
      << result.output;
  std::vector<std::string> alone = {"--out=one", "--train.accumulation=6"};
  alone.insert(alone.end(), common.begin(), common.end());
  ASSERT_EQ(run.train(alone).exit_code, 0);
  expect_near(values_of(run.text("elastic/metrics.jsonl"), "loss"), values_of(run.text("one/metrics.jsonl"), "loss"));
}

// fault:B4: neither stage has what the other holds, so that nothing goes on without a start from the checkpoint.
TEST(TrainRanks, AKilledPipelineStageEndsTheOtherByNameAndTheLastCheckpointTakesTheRunUp) {
  const SmallRun run;
  const auto settings_for = [](const std::string& out) {
    return std::vector<std::string>{"--gpus=2",
                                    "--cluster.pp=2",
                                    "--model.num_hidden_layers=2",
                                    "--train.steps=200",
                                    "--train.accumulation=3",
                                    "--checkpoint.every=50",
                                    "--train.log_every=1",
                                    "--out=" + out};
  };
  const ProgramResult whole = run.train(settings_for("whole"));
  if (contains(whole.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  for (const size_t victim : {0U, 1U}) {
    const std::string out = "without " + std::to_string(victim);
    const auto program = run.start(out, settings_for(out));
    ASSERT_TRUE(await([&] { return run.exists(out + "/checkpoints/step-50/COMPLETE"); }));
    const std::vector<pid_t> ranks = program->children();
    ASSERT_EQ(ranks.size(), 2U);
    ASSERT_EQ(kill(ranks[victim], SIGKILL), 0);
    const ProgramResult lost = program->wait();
    EXPECT_EQ(lost.exit_code, 7) << lost.output << lost.errors;
    const std::string survivor = std::to_string(1 - victim) + ": ";
    const size_t at = lost.errors.find(survivor + "litespark: ");
    ASSERT_NE(at, std::string::npos) << lost.errors;
    const std::string said = lost.errors.substr(at, lost.errors.find('\n', at) - at);
    // By the call that it was in, or by the rendezvous, whichever hears of it first.
    EXPECT_TRUE(contains(said, "rank " + std::to_string(victim))) << lost.errors;
    const ProgramResult resumed = run.train(settings_for(out));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_TRUE(contains(resumed.output, "continuing after step ")) << resumed.output;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string name = std::string("/checkpoints/step-200/") + file;
      EXPECT_TRUE(run.text(out + name) == run.text("whole" + name)) << file;
    }
  }
}

// What torchrun does when a host is lost: it starts all that are left again, as another attempt of the same job.
TEST(TrainRanks, AnotherLauncherMayStartAnElasticRunAgainWithFewerRanks) {
  const SmallRun run;
  std::ofstream(run.path("secret")) << std::string(32, 's');
  std::filesystem::permissions(run.path("secret"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const auto start_all = [&](int ranks, int attempt, const std::string& elastic) {
    const std::string port = free_port();
    std::vector<std::unique_ptr<RunningLitespark>> started;
    for (int rank = 0; rank < ranks; ++rank) {
      started.push_back(std::make_unique<RunningLitespark>(
          run.train_arguments({"--cluster.gpus=3", "--train.accumulation=2", "--checkpoint.every=3", "--out=run",
                               "--distribution.elastic=" + elastic, "--distribution.secret_file=secret"}),
          run.path("").string(), "",
          std::vector<std::string>{"env", "RANK=" + std::to_string(rank), "LOCAL_RANK=" + std::to_string(rank),
                                   "WORLD_SIZE=" + std::to_string(ranks), "MASTER_ADDR=127.0.0.1",
                                   "MASTER_PORT=" + port, "TORCHELASTIC_RUN_ID=job",
                                   "TORCHELASTIC_RESTART_COUNT=" + std::to_string(attempt)}));
    }
    std::vector<ProgramResult> ends;
    for (const auto& program : started) ends.push_back(program->wait());
    return ends;
  };
  const std::vector<ProgramResult> whole = start_all(3, 0, "true");
  if (contains(whole.front().errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  for (const ProgramResult& end : whole) ASSERT_EQ(end.exit_code, 0) << end.errors;
  const std::vector<double> expected = values_of(run.text("run/metrics.jsonl"), "loss");
  ASSERT_EQ(expected.size(), 6U);
  for (const int ranks : {2, 1}) {
    std::filesystem::remove_all(run.path("run/checkpoints/step-6"));
    const std::vector<ProgramResult> fewer = start_all(ranks, 3 - ranks, "true");
    for (const ProgramResult& end : fewer) ASSERT_EQ(end.exit_code, 0) << end.errors;
    EXPECT_TRUE(contains(fewer.front().output, "continuing after step 3")) << fewer.front().output;
    expect_near(values_of(run.text("run/metrics.jsonl"), "loss"), expected);
  }
  std::filesystem::remove_all(run.path("run/checkpoints/step-6"));
  for (const ProgramResult& end : start_all(2, 3, "false")) {
    EXPECT_EQ(end.exit_code, 2);
    EXPECT_TRUE(contains(end.errors, "[cluster.gpus]")) << end.errors;
  }
}

}  // namespace
}  // namespace litespark
