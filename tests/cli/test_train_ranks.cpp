// SPDX-License-Identifier: Apache-2.0
// `litespark train --gpus N` with processes as ranks: the run of one, on however many it is taken up again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/launched_ranks.h"
#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

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

TEST(TrainRanks, ALayoutThatTheModelDoesNotAllowIsRefusedBeforeAnythingStarts) {
  const SmallRun run;
  const ProgramResult heads = run.train({"--gpus=4", "--cluster.tp=4"});
  EXPECT_EQ(heads.exit_code, 2);
  EXPECT_TRUE(contains(heads.errors, "num_attention_heads = 2")) << heads.errors;
  const ProgramResult stages = run.train({"--gpus=4", "--cluster.pp=4"});
  EXPECT_EQ(stages.exit_code, 2);
  EXPECT_TRUE(contains(stages.errors, "[cluster.pp] leaves pipeline stages without a layer; got 4")) << stages.errors;
  for (const char* command : {"train", "plan"}) {
    const ProgramResult lengths = run_litespark(
        {command, "small.toml", "--gpus=2", "--cluster.pp=2", "--cluster.pp_layers=3,2", "--model.num_hidden_layers=4"},
        run.path("").string());
    EXPECT_EQ(lengths.exit_code, 2) << command;
    EXPECT_TRUE(contains(lengths.errors,
                         "[cluster.pp_layers] does not add up to the layers of the model; got [3, 2], "
                         "together 5, expected num_hidden_layers = 4"))
        << lengths.errors;
  }
  const ProgramResult rows = run.train({"--gpus=3", "--cluster.cp=3"});
  EXPECT_EQ(rows.exit_code, 2);
  EXPECT_TRUE(contains(rows.errors, "[cluster.cp] cuts the tokens of a micro-batch")) << rows.errors;
  EXPECT_TRUE(contains(rows.errors, "got 16 tokens, cluster.cp = 3, expected a multiple of 6")) << rows.errors;
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

TEST(TrainRanks, MoreThanAHostCanStartAreRefusedBeforeAnyIsStarted) {
  const SmallRun run;
  const ProgramResult result = run.train({"--gpus=1048576"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "[launch] more ranks than this host can start; got 1048576, expected "))
      << result.errors;
}

TEST(TrainRanks, ExpertsThatNoModelHasAreNotSpreadOverThem) {
  const SmallRun run;
  const ProgramResult result = run.train({"--gpus=2", "--cluster.ep=2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "[cluster.ep] spreads experts over ranks")) << result.errors;
  EXPECT_TRUE(contains(result.errors, "got 2, expected 1")) << result.errors;
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

// A run file of one device in the hands of a launcher of two: its options for ranks are not without effect. Whatever
// is, one of the ranks says.
TEST(TrainRanks, SettingsWithoutEffectAreJudgedByTheRanksThatThereAre) {
  const SmallRun run;
  std::ofstream(run.path("secret")) << std::string(32, 's');
  std::filesystem::permissions(run.path("secret"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::string port = free_port();
  const auto start = [&](const std::string& rank) {
    return std::make_unique<RunningLitespark>(
        run.train_arguments({"--distribution.zero=2", "--distribution.max_restarts=9",
                             "--distribution.secret_file=secret", "--train.accumulation=2"}),
        run.path("").string(), "",
        std::vector<std::string>{"env", "RANK=" + rank, "LOCAL_RANK=" + rank, "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                                 "MASTER_PORT=" + port});
  };
  const auto first = start("0");
  const auto second = start("1");
  const ProgramResult of_first = first->wait();
  const ProgramResult of_second = second->wait();
  if (contains(of_first.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  EXPECT_EQ(of_first.exit_code, 0) << of_first.errors;
  EXPECT_FALSE(contains(of_first.errors, "no effect: distribution.zero")) << of_first.errors;
  EXPECT_TRUE(contains(of_first.errors, "no effect: distribution.max_restarts")) << of_first.errors;
  EXPECT_FALSE(contains(of_second.errors, "no effect")) << of_second.errors;
  const ProgramResult launched = run.train({"--gpus=2", "--distribution.max_restarts=9", "--out=launched"});
  EXPECT_EQ(launched.exit_code, 0) << launched.errors;
  const size_t said = launched.errors.find("no effect: distribution.max_restarts");
  ASSERT_NE(said, std::string::npos) << launched.errors;
  EXPECT_EQ(launched.errors.find("no effect", said + 1), std::string::npos) << launched.errors;
}

// By the launcher's variables, or by starting itself.
TEST(TrainRanks, OneRankThatMeetsItselfTrainsAsOneThatMeetsNobody) {
  const SmallRun run;
  std::ofstream(run.path("secret")) << std::string(32, 's');
  std::filesystem::permissions(run.path("secret"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_EQ(run.train({"--out=plain"}).exit_code, 0);
  const ProgramResult launched = run.train(
      {"--out=launched", "--distribution.at_one_rank=true", "--distribution.secret_file=secret"},
      {"env", "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + free_port()});
  if (contains(launched.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  ASSERT_EQ(launched.exit_code, 0) << launched.errors;
  const ProgramResult own = run.train({"--out=own", "--distribution.at_one_rank=true"});
  ASSERT_EQ(own.exit_code, 0) << own.errors;
  const std::string expected = run.text("plain/metrics.jsonl");
  for (const char* out : {"launched", "own"}) {
    const std::string found = run.text(std::string(out) + "/metrics.jsonl");
    for (const char* key : {"loss", "grad_norm", "tokens"}) {
      EXPECT_EQ(values_of(found, key), values_of(expected, key)) << out << " " << key;
    }
    EXPECT_FALSE(values_of(found, "rank_seconds_median").empty()) << found;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string name = std::string("/checkpoints/step-6/") + file;
      EXPECT_TRUE(run.text(out + name) == run.text("plain" + name)) << out << " " << file;
    }
  }
  // A job of torchrun that has one process left is that process.
  const ProgramResult plain = run.train({"--out=left"}, {"env", "RANK=0", "WORLD_SIZE=1"});
  ASSERT_EQ(plain.exit_code, 0) << plain.errors;
  EXPECT_TRUE(values_of(run.text("left/metrics.jsonl"), "rank_seconds_median").empty());
}

TEST(TrainRanks, EachLeavesARecordOfItsLastCallsInWhichThoseOfAllMeet) {
  const SmallRun run;
  const ProgramResult result = run.train({"--gpus=2", "--distribution.record_calls=20", "--out=out"});
  if (contains(result.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  std::vector<std::vector<double>> numbers;
  for (const char* rank : {"0", "1"}) {
    const std::string lines = run.text(std::string("out/calls/rank-") + rank + ".jsonl");
    numbers.push_back(values_of(lines, "call"));
    ASSERT_EQ(numbers.back().size(), 20u) << lines;
    EXPECT_EQ(values_of(lines, "ended").size(), 20u) << lines;  // that are numbers
    EXPECT_TRUE(contains(lines, "\"what\": \"reduce_scatter (sum) of f32 [")) << lines;
  }
  EXPECT_EQ(numbers[0], numbers[1]);

  // What ended is not written over by a start that is refused, nor by one that has nothing to do.
  const std::string before = run.text("out/calls/rank-0.jsonl");
  const ProgramResult refused =
      run.train({"--gpus=2", "--distribution.record_calls=20", "--out=out", "--optim.lr=0.7"});
  EXPECT_EQ(refused.exit_code, 2) << refused.errors;
  const ProgramResult idle = run.train({"--gpus=2", "--distribution.record_calls=20", "--out=out"});
  EXPECT_EQ(idle.exit_code, 0) << idle.errors;
  EXPECT_EQ(run.text("out/calls/rank-0.jsonl"), before);
  const ProgramResult alone = run.train({"--distribution.record_calls=20", "--out=alone"});
  EXPECT_EQ(alone.exit_code, 0) << alone.errors;
  EXPECT_FALSE(run.exists("alone/calls"));
}

TEST(TrainRanks, AFailureOfTheFirstEndsAllWithItsCode) {
  const SmallRun run;
  const ProgramResult result = run.train({"--gpus=2", "--checkpoint.resume=nowhere"});
  if (contains(result.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_TRUE(contains(result.errors, "checkpoint.resume")) << result.errors;
}

TEST(TrainRanks, ARecordOfCallsThatCannotBeWrittenIsAWarning) {
  for (const bool is_folder : {false, true}) {
    const SmallRun run;
    std::filesystem::create_directory(run.path("out"));
    if (is_folder) {
      std::filesystem::create_directories(run.path("out/calls/rank-0.jsonl/x"));
    } else {
      std::ofstream(run.path("out/calls")) << "in the way";
    }
    const ProgramResult result = run.train({"--gpus=2", "--distribution.record_calls=20", "--out=out"});
    if (contains(result.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_TRUE(contains(result.output, "done; saved out/checkpoints/step-6")) << result.errors;
    EXPECT_TRUE(contains(result.errors, is_folder ? "0: warning: the record of calls is lost: [out/calls/rank-0.jsonl"
                                                  : "0: warning: the record of calls is lost: [out/calls] the folder "
                                                    "cannot be made: Not a directory\n"));
    EXPECT_EQ(is_folder, run.exists("out/calls/rank-1.jsonl"));
  }
}

}  // namespace
}  // namespace litespark
