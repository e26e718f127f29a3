// SPDX-License-Identifier: Apache-2.0
// `litespark train` in the small: what it leaves behind, how it stops, how it goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "cli/small_run.h"
#include "io/file.h"
#include "support/error_text.h"

namespace litespark {
namespace {

TEST(Train, WritesTheEffectiveConfigWhichTrainsTheSame) {  // report:B45 fault:F5
  const SmallRun run;
  const ProgramResult first = run.train({"--optim.lr=0.01"});
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_TRUE(contains(first.output, "step 6/6"));
  const std::string effective = run.text("runs/small/run.toml");
  EXPECT_TRUE(contains(effective, "lr = 0.01\n"));
  EXPECT_TRUE(contains(effective, "warmup = 0\n"));
  EXPECT_EQ(run.text("runs/small/checkpoints/step-6/run.toml"), effective);

  std::filesystem::copy(run.path("runs/small/run.toml"), run.path("again.toml"));
  const ProgramResult again = run_litespark({"train", "again.toml", "--out=again"}, run.path("").string());
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(run.text("again/checkpoints/step-6/model.safetensors"),
            run.text("runs/small/checkpoints/step-6/model.safetensors"));
}

TEST(Train, ARunFileThatSomebodyWroteIsNeverOverwritten) {
  const SmallRun run;
  std::filesystem::create_directory(run.path("own"));
  std::filesystem::copy(run.path("small.toml"), run.path("own/run.toml"));
  const std::string before = run.text("own/run.toml");
  const ProgramResult refused = run_litespark({"train", "own/run.toml", "--out=own"}, run.path("").string());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.errors, "[out] the run would write its effective configuration over the run file"));
  EXPECT_EQ(run.text("own/run.toml"), before);
  // One of ours is only written again.
  ASSERT_EQ(run.train({"--out=ours"}).exit_code, 0);
  const ProgramResult again = run_litespark({"train", "ours/run.toml", "--train.steps=8"}, run.path("").string());
  EXPECT_EQ(again.exit_code, 2) << "other steps are another schedule";
  EXPECT_EQ(run_litespark({"train", "ours/run.toml"}, run.path("").string()).exit_code, 0);
}

TEST(Train, AResumeWithOtherKernelsSaysThatBitsWillDiffer) {
  const SmallRun run;
  ASSERT_EQ(run.train({"--out=first", "--checkpoint.every=3"}).exit_code, 0);
  std::filesystem::remove_all(run.path("first/checkpoints/step-6"));
  std::filesystem::remove(run.path("first/checkpoints/latest"));
  const ProgramResult same = run.train({"--out=first", "--checkpoint.every=3"});
  EXPECT_EQ(same.exit_code, 0) << same.errors;
  EXPECT_FALSE(contains(same.errors, "kernels"));
  std::filesystem::remove_all(run.path("first/checkpoints/step-6"));
  std::filesystem::remove(run.path("first/checkpoints/latest"));
  const ProgramResult other = run.train({"--out=first", "--checkpoint.every=3", "--device.isa=generic"});
  EXPECT_EQ(other.exit_code, 0) << other.errors;
  EXPECT_TRUE(contains(other.errors, "kernels and this run goes on with generic")) << other.errors;
}

TEST(Train, AFileThatMayNotGrowIsAStorageErrorThatNamesIt) {
  const SmallRun run;
  const ProgramResult ended = run.train({"--out=limited", "--checkpoint.every=2"}, {"prlimit", "--fsize=30000"});
  EXPECT_EQ(ended.exit_code, 4) << ended.errors;
  EXPECT_TRUE(contains(ended.errors, "limited/checkpoints")) << ended.errors;
}

TEST(Train, ASignalSavesStopsAndTheRunGoesOnToTheSameEnd) {  // report:B6, fault:B1, report:B2
  const SmallRun run;
  const std::vector<std::string> settings = {"--train.steps=2000", "--checkpoint.every=500", "--train.log_every=500"};
  std::vector<std::string> whole = settings;
  whole.push_back("--out=whole");
  ASSERT_EQ(run.train(whole).exit_code, 0);

  const auto program = run.start("cut", settings);
  program->send(SIGTERM);
  const ProgramResult cut = program->wait();
  ASSERT_EQ(cut.exit_code, 5) << cut.output << cut.errors;
  EXPECT_TRUE(contains(cut.output, "stopped; saved cut/checkpoints/step-"));

  std::vector<std::string> rest = settings;
  rest.push_back("--out=cut");
  const ProgramResult resumed = run.train(rest);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_TRUE(contains(resumed.output, "continuing after step"));
  for (const char* file : {"model.safetensors", "config.json"}) {
    EXPECT_EQ(run.text(std::string("cut/checkpoints/step-2000/") + file),
              run.text(std::string("whole/checkpoints/step-2000/") + file));
  }
  const std::string metrics = run.text("cut/metrics.jsonl");
  int steps = 0;
  for (size_t at = metrics.find("\"loss\""); at != std::string::npos; at = metrics.find("\"loss\"", at + 1)) ++steps;
  EXPECT_EQ(steps, 2000);
}

// As Slurm does at pre-emption: SIGCONT and SIGTERM, both again when the grace ends, then SIGKILL.
TEST(Train, ASchedulersSignalsSaveOnceAndItsKillDamagesNothing) {  // fault:B2, report:B38
  const SmallRun run;
  const std::vector<std::string> settings = {"--train.steps=1500", "--checkpoint.every=60", "--train.log_every=500",
                                             "--meter.peak_tflops=1"};  // measuring it takes longer than the run
  std::vector<std::string> whole = settings;
  whole.push_back("--out=whole");
  ASSERT_EQ(run.train(whole).exit_code, 0);
  const auto saved = [&](const char* out) {
    return run.text(out + std::string("/checkpoints/step-1500/model.safetensors"));
  };
  for (const bool is_killed : {false, true}) {
    const std::string out = is_killed ? "killed" : "stopped";
    const auto program = run.start(out, settings);
    for (const int signal : {SIGCONT, SIGTERM, SIGCONT, SIGTERM}) program->send(signal);
    if (is_killed) program->send(SIGKILL);
    EXPECT_EQ(program->wait().exit_code, is_killed ? 128 + SIGKILL : 5) << out;
    std::vector<std::string> rest = settings;
    rest.push_back("--out=" + out);
    const ProgramResult resumed = run.train(rest);
    EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_EQ(saved(out.c_str()), saved("whole")) << out;
  }
}

TEST(Train, TheSignalOfTheUsersChoiceStopsToo) {
  const SmallRun run;
  const auto program = run.start("cut", {"--train.steps=100000000", "--checkpoint.signal=SIGUSR1"});
  program->send(SIGUSR1);
  EXPECT_EQ(program->wait().exit_code, 5);
}

TEST(Train, SaysWhereTheTimeWent) {
  const SmallRun run;
  const ProgramResult result = run.train({"--train.eval_every=3", "--train.eval_batches=2", "--checkpoint.every=2"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "time of a step"));
  EXPECT_TRUE(contains(result.output, "time of the run"));
  EXPECT_TRUE(contains(run.text("runs/small/timeline.json"), "\"sampled_steps\": 1"));
  EXPECT_TRUE(contains(run.text("runs/small/trace.json"), "\"traceEvents\""));
  EXPECT_TRUE(contains(run.text("runs/small/metrics.jsonl"), "{\"step\": 2, \"checkpoint_seconds\": "));
  EXPECT_TRUE(contains(run.text("runs/small/metrics.jsonl"), ", \"eval_seconds\": "));
  ASSERT_EQ(run.train({"--out=plain", "--meter.timeline_every=0"}).exit_code, 0);
  EXPECT_FALSE(run.exists("plain/trace.json"));
}

TEST(Train, MeasuresItsMemoryBesideThePlan) {  // claim:L12
  const SmallRun run;
  const ProgramResult result = run.train({"--train.steps=45"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "memory beyond the plan: "));
  EXPECT_TRUE(contains(result.output, "memory: 0 device allocations after step 3; used memory flat within "));
  EXPECT_FALSE(contains(result.output, "warning:"));
  const std::string memory = run.text("runs/small/memory.json");
  EXPECT_TRUE(contains(memory, "\"measured_bytes\": "));
  EXPECT_FALSE(contains(memory, "\"measured_bytes\": null"));
}

TEST(Train, TheManifestSaysWithWhatEachStartComputed) {
  const SmallRun run;
  ASSERT_EQ(run.train({"--checkpoint.every=3", "--data.tokenizer=" + test::golden_folder("tokenizer-trained").string()})
                .exit_code,
            0);
  std::filesystem::remove_all(run.path("runs/small/checkpoints/step-6"));
  ASSERT_EQ(run.train({"--train.log_every=2", "--data.tokenizer=" + test::golden_folder("tokenizer-trained").string()})
                .exit_code,
            0);
  const std::string manifest = run.text("runs/small/manifest.json");
  for (const char* part : {"\"litespark\": \"", "\"compiler\": \"", "\"oneDNN\": \"", "\"processor\": \"",
                           "\"device\": \"cpu (", "\"from_step\": 0,", "\"from_step\": 3,", "\"--checkpoint.every=3\"",
                           "\"--train.log_every=2\"", "\"data\": \"", "\"tuning\": {"}) {
    EXPECT_TRUE(contains(manifest, part));
  }
  EXPECT_TRUE(contains(manifest, "\"config\": \"" + hash_file(run.path("runs/small/run.toml")) + "\""));
  EXPECT_TRUE(contains(
      manifest, "\"tokenizer\": \"" + hash_file(test::golden_folder("tokenizer-trained") / "tokenizer.json") + "\""));
}

TEST(Train, AFinishedRunHasNothingToDo) {
  const SmallRun run;
  ASSERT_EQ(run.train().exit_code, 0);
  const ProgramResult again = run.train();
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_TRUE(contains(again.output, "nothing to do: 6 steps are done"));
  EXPECT_TRUE(contains(run.text("runs/small/manifest.json"), "\"from_step\": 6,"));
}

TEST(Train, AnotherSeedsCheckpointIsRefused) {
  const SmallRun run;
  ASSERT_EQ(run.train().exit_code, 0);
  const ProgramResult other = run.train({"--seed=2"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(contains(other.errors, "seed"));
  const ProgramResult afresh = run.train({"--checkpoint.resume=never"});
  EXPECT_EQ(afresh.exit_code, 2);
  EXPECT_TRUE(contains(afresh.errors, "checkpoint.resume"));
}

TEST(Train, EvaluatesOnHeldOutTokens) {
  const SmallRun run;
  const ProgramResult result = run.train({"--train.eval_every=3", "--train.eval_batches=2"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "step 3  held-out loss"));
  EXPECT_TRUE(contains(run.text("runs/small/metrics.jsonl"), "\"eval_loss\": "));
}

TEST(Train, WhatIsNotSupportedIsRefusedBeforeAnythingIsMade) {
  const SmallRun run;
  const ProgramResult task = run.train({"--task=ppo"});
  EXPECT_EQ(task.exit_code, 2);
  EXPECT_TRUE(contains(task.errors, "is not supported yet"));
  EXPECT_EQ(run.train({"--train.eval_every=1", "--train.eval_batches=0"}).exit_code, 2);
  EXPECT_FALSE(run.exists("runs"));
}

TEST(Train, ARunThatDoesNotFitIsRefusedBeforeItStarts) {
  const SmallRun run;
  const ProgramResult result = run.train({"--memory.budget=100000"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "the run does not fit"));
  EXPECT_FALSE(run.exists("runs/small/run.toml"));
  const ProgramResult huge = run.train({"--model.hidden_size=16384", "--model.intermediate_size=65536",
                                        "--model.num_hidden_layers=200", "--model.num_attention_heads=128"});
  EXPECT_EQ(huge.exit_code, 2);
  EXPECT_TRUE(contains(huge.errors, "what is free"));
}

TEST(Train, AnOpenMicroBatchIsChosenOnceAndGoesIntoTheEffectiveConfig) {
  const SmallRun run;
  const std::vector<std::string> open = {"--train.micro_batch=0", "--train.accumulation=4"};
  const ProgramResult first = run.train(open);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_TRUE(contains(first.output, "train.micro_batch = 4 with train.accumulation = 1 and memory.recompute = "));
  EXPECT_TRUE(contains(run.text("runs/small/run.toml"), "micro_batch = 4\n"));
  const ProgramResult again = run.train(open);
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_TRUE(contains(again.output, "nothing to do"));
  EXPECT_EQ(run.train({"--train.micro_batch=0", "--train.accumulation=6"}).exit_code, 2);
}

TEST(Train, ATaskThatIsNotThereYetIsRefusedByItsName) {
  const ProgramResult result = SmallRun().train({"--task=sft"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "[task] is not supported yet; got \"sft\", expected \"pretrain\""))
      << result.errors;
}

TEST(Train, OffloadingOnACpuIsRefused) {
  const SmallRun run;
  const ProgramResult result = run.train({"--memory.recompute=block", "--memory.offload=activations"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "memory.offload"));
  EXPECT_TRUE(contains(result.errors, "needs a GPU"));
}

TEST(Train, Bf16FormatsTrainAndResume) {
  const SmallRun run;
  const std::vector<std::string> formats = {"--precision.compute=bf16", "--precision.master=bf16",
                                            "--precision.gradient=bf16", "--optim.moments=bf16"};
  const ProgramResult first = run.train(formats);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_TRUE(contains(run.train(formats).output, "nothing to do"));
  EXPECT_EQ(run.train({"--precision.compute=bf16"}).exit_code, 2);  // other formats would give other bits
}

TEST(Train, ARunFolderThatCannotBeMadeIsAStorageError) {
  const SmallRun run;
  const ProgramResult result = run.train({"--out=small.toml/x"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_TRUE(contains(result.errors, "run folder"));
}

TEST(Train, BytesOfATextAreTrainedOn) {
  const SmallRun run;
  std::ofstream(run.path("some.txt")) << std::string(400, 'a') + std::string(400, 'b');
  const ProgramResult result =
      run.train({"--data.source=text", "--data.path=some.txt", "--model.vocab_size=256", "--train.eval_every=3",
                 "--train.eval_batches=0", "--data.eval_path=some.txt"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const ProgramResult absent = run.train({"--data.source=text", "--data.path=absent.txt", "--model.vocab_size=256"});
  EXPECT_NE(absent.exit_code, 0);
  EXPECT_TRUE(contains(absent.errors, "absent.txt"));
}

TEST(Train, SaysWhatTheRunTookAndHowItIsKnown) {
  const SmallRun run;
  const ProgramResult result = run.train({"--meter.grid=FR", "--meter.pue=1.5", "--meter.peak_tflops=0.001"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "6 L H D T"));
  EXPECT_TRUE(contains(result.output, "J per 1,000 tokens"));
  EXPECT_TRUE(contains(result.output, "FR 44 g CO2e/kWh"));
  EXPECT_TRUE(contains(result.output, "money: unavailable (meter.price_per_kwh)"));
  const std::string metrics = run.text("runs/small/metrics.jsonl");
  for (const char* key : {"mfu", "watts", "joules", "co2_grams"}) {
    EXPECT_TRUE(contains(metrics, "\"" + std::string(key) + "\": ")) << key;
    EXPECT_EQ(metrics.find("\"" + std::string(key) + "\": null"), std::string::npos) << key;
  }
  EXPECT_TRUE(contains(run.text("runs/small/energy.jsonl"), "\"step\": 6, "));
  const std::string emissions = run.text("runs/small/emissions.csv");
  EXPECT_TRUE(emissions.starts_with("timestamp,project_name,run_id,"));
  EXPECT_TRUE(contains(emissions, ",France,FRA,"));
  EXPECT_TRUE(emissions.ends_with(",1.5\n"));
}

TEST(Train, EnergyOfARunGoesOnAfterARestart) {  // fault:F3
  const SmallRun run;
  ASSERT_EQ(run.train({"--meter.price_per_kwh=0.2"}).exit_code, 0);
  const std::string first = run.text("runs/small/energy.jsonl");
  std::filesystem::remove_all(run.path("runs/small/checkpoints"));  // as if killed before the first save
  ASSERT_EQ(run.train().exit_code, 0);
  const std::string both = run.text("runs/small/energy.jsonl");
  EXPECT_TRUE(both.starts_with(first));
  EXPECT_GT(both.size(), first.size());
}

TEST(Train, AnUnknownGridIsRefusedBeforeAnythingIsMade) {  // report:B44
  const SmallRun run;
  const ProgramResult result = run.train({"--meter.grid=ATLANTIS"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "ATLANTIS"));
  EXPECT_FALSE(run.exists("runs"));
}

}  // namespace
}  // namespace litespark
