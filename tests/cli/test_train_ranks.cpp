// SPDX-License-Identifier: Apache-2.0
// `litespark train --gpus N` with processes as ranks: the run of one, on however many it is taken up again.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
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

#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

/// As the program says it where the library was not there at build time; ./test.sh installs it.
constexpr const char* kNoEngine = "this build has no Gloo";

/// Values of a key of metrics.jsonl, in order.
std::vector<double> values_of(const std::string& metrics, const std::string& key) {
  const std::string wanted = "\"" + key + "\": ";
  std::vector<double> values;
  for (size_t at = metrics.find(wanted); at != std::string::npos; at = metrics.find(wanted, at + 1)) {
    values.push_back(std::stod(metrics.substr(at + wanted.size())));
  }
  return values;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << i;
}

TEST(TrainRanks, AreTheRunOfOneThatAccumulatesAndAnyNumberOfThemTakesItUp) {
  const SmallRun run;
  const std::vector<std::string> common = {"--train.eval_every=3", "--train.eval_batches=3", "--checkpoint.every=3"};
  const auto train = [&](const std::string& out, std::vector<std::string> settings) {
    settings.insert(settings.end(), common.begin(), common.end());
    settings.push_back("--out=" + out);
    return run.train(settings);
  };
  const ProgramResult several = train("ranks", {"--gpus=2", "--train.accumulation=3"});
  if (contains(several.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  ASSERT_EQ(several.exit_code, 0) << several.errors << several.output;
  ASSERT_EQ(train("one", {"--train.accumulation=6"}).exit_code, 0);
  const std::string expected = run.text("one/metrics.jsonl");
  const std::string found = run.text("ranks/metrics.jsonl");
  for (const char* key : {"loss", "eval_loss", "tokens"}) expect_near(values_of(found, key), values_of(expected, key));
  EXPECT_TRUE(run.exists("ranks/report.html"));

  for (const auto& [name, settings] :
       {std::pair<std::string, std::vector<std::string>>{"on one", {"--train.accumulation=6"}},
        {"on three", {"--gpus=3", "--train.accumulation=2"}}}) {
    std::filesystem::copy(run.path("ranks"), run.path(name), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(run.path(name + "/checkpoints/step-6"));
    const ProgramResult resumed = train(name, settings);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_TRUE(contains(resumed.output, "continuing after step 3")) << resumed.output;
    expect_near(values_of(run.text(name + "/metrics.jsonl"), "loss"), values_of(expected, "loss"));
  }
  const ProgramResult other = train("ranks", {"--gpus=2", "--train.accumulation=2"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(contains(other.errors, "accumulation=4")) << other.errors;
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
  for (const char* key : {"loss", "eval_loss", "tokens", "grad_norm"}) {
    expect_near(values_of(run.text("tensor/metrics.jsonl"), key), values_of(expected, key));
  }
  std::vector<std::string> plan = {"plan", "small.toml", "--json", "--hardware=h200"};
  plan.insert(plan.end(), tensor.begin(), tensor.end());
  const std::string planned = run_litespark(plan, run.path("").string()).output;
  EXPECT_EQ(values_of(planned, "total_bytes"), values_of(run.text("tensor/memory.json"), "total_bytes")) << planned;
  EXPECT_EQ(values_of(planned, "total_bytes").size(), 1u);

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

// claim:L8, and the checksums of replicas: processes that average their norms every third step go on after a save as if
// there had been none.
TEST(TrainRanks, AveragedNormsResumeInTheSameBitsAndReplicasAgree) {
  const SmallRun run;
  const auto train = [&](const std::string& out) {
    return run.train({"--gpus=3", "--distribution.sync_small_every=3", "--distribution.verify_every=3",
                      "--checkpoint.every=3", "--train.log_every=1", "--out=" + out});
  };
  const ProgramResult whole = train("whole");
  if (contains(whole.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  ASSERT_EQ(whole.exit_code, 0) << whole.errors << whole.output;
  const std::string expected = run.text("whole/metrics.jsonl");
  EXPECT_EQ(values_of(expected, "copy_drift").size(), 1U) << expected;
  std::filesystem::copy(run.path("whole"), run.path("resumed"), std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(run.path("resumed/checkpoints/step-6"));
  ASSERT_EQ(train("resumed").exit_code, 0);
  const std::string found = run.text("resumed/metrics.jsonl");
  for (const char* key : {"loss", "grad_norm"}) EXPECT_EQ(values_of(found, key), values_of(expected, key)) << key;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string name = std::string("/checkpoints/step-6/") + file;
    EXPECT_TRUE(run.text("resumed" + name) == run.text("whole" + name)) << file;
  }
  const ProgramResult between = run.train({"--gpus=3", "--distribution.sync_small_every=3", "--checkpoint.every=2"});
  EXPECT_EQ(between.exit_code, 2);
  EXPECT_TRUE(contains(between.errors, "checkpoint.every")) << between.errors;
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

TEST(TrainRanks, ALayoutThatTheModelDoesNotAllowIsRefusedBeforeAnythingStarts) {
  const SmallRun run;
  const ProgramResult heads = run.train({"--gpus=4", "--cluster.tp=4"});
  EXPECT_EQ(heads.exit_code, 2);
  EXPECT_TRUE(contains(heads.errors, "num_attention_heads = 2")) << heads.errors;
  const ProgramResult stages = run.train({"--gpus=4", "--cluster.pp=4"});
  EXPECT_EQ(stages.exit_code, 2);
  EXPECT_TRUE(contains(stages.errors, "[cluster.pp] leaves pipeline stages without a layer; got 4")) << stages.errors;
  const std::vector<std::string> interleaved = {"--gpus=2", "--cluster.pp=2", "--cluster.vpp=2",
                                                "--train.accumulation=3", "--model.num_hidden_layers=4"};
  for (const char* command : {"train", "plan"}) {
    std::vector<std::string> arguments = {command, "small.toml"};
    arguments.insert(arguments.end(), interleaved.begin(), interleaved.end());
    const ProgramResult rounds = run_litespark(arguments, run.path("").string());
    EXPECT_EQ(rounds.exit_code, 2) << command;
    EXPECT_TRUE(contains(rounds.errors, "[cluster.vpp]")) << rounds.errors;
    EXPECT_FALSE(contains(rounds.errors, "rank ")) << rounds.errors;
  }
}

TEST(TrainRanks, ASignalSavesAndStopsAllOfThem) {
  const SmallRun run;
  const ProgramResult probe = run.train({"--gpus=2", "--train.steps=1", "--out=probe"});
  if (contains(probe.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  const auto program = run.start("cut", {"--gpus=2", "--train.steps=1000000", "--train.log_every=1"});
  program->send(SIGTERM);
  const ProgramResult cut = program->wait();
  ASSERT_EQ(cut.exit_code, 5) << cut.output << cut.errors;
  EXPECT_TRUE(contains(cut.output, "stopped; saved cut/checkpoints/step-")) << cut.output;
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
    EXPECT_TRUE(contains(said, "rank " + std::to_string(victim))) << lost.errors;
    // The rendezvous may notice before the call that waits for the stage: it knows of no calls.
    const bool names_the_call = said.find(", step ") != std::string::npos;
    EXPECT_TRUE(names_the_call || said.find("aborted: rank ") != std::string::npos) << lost.errors;
    const ProgramResult resumed = run.train(settings_for(out));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_TRUE(contains(resumed.output, "continuing after step ")) << resumed.output;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string name = std::string("/checkpoints/step-200/") + file;
      EXPECT_TRUE(run.text(out + name) == run.text("whole" + name)) << file;
    }
  }
}

/// A port that nobody listens on.
std::string free_port() {
  const int socket_number = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(socket_number, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(socket_number, reinterpret_cast<sockaddr*>(&address), &size);
  close(socket_number);
  return std::to_string(ntohs(address.sin_port));
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

TEST(TrainRanks, WhoseSettingsDifferAreToldTheKeysAndBothValues) {  // fault:B12
  const SmallRun run;
  std::ofstream(run.path("secret")) << std::string(32, 's');
  std::filesystem::permissions(run.path("secret"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::string port = free_port();
  const auto start = [&](const std::string& rank, const std::string& steps) {
    return std::make_unique<RunningLitespark>(
        run.train_arguments({"--train.steps=" + steps, "--distribution.secret_file=secret"}), run.path("").string(), "",
        std::vector<std::string>{"env", "LITESPARK_RANK=" + rank, "LITESPARK_LOCAL_RANK=" + rank, "LITESPARK_SIZE=2",
                                 "LITESPARK_JOB=differ", "LITESPARK_ATTEMPT=0", "LITESPARK_HOST=127.0.0.1",
                                 "LITESPARK_PORT=" + port});
  };
  const auto first = start("0", "6");
  const auto second = start("1", "7");
  for (const ProgramResult& result : {first->wait(), second->wait()}) {
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_TRUE(contains(result.errors, "train.steps is 7, rank 0 has 6")) << result.errors;
  }
}

TEST(TrainRanks, AFailureOfTheFirstEndsAllWithItsCode) {
  const SmallRun run;
  const ProgramResult result = run.train({"--gpus=2", "--checkpoint.resume=nowhere"});
  if (contains(result.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_TRUE(contains(result.errors, "checkpoint.resume")) << result.errors;
}

}  // namespace
}  // namespace litespark
