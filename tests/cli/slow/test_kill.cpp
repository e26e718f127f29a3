// SPDX-License-Identifier: Apache-2.0
// kill -9 at random points of a run that saves often: the run that goes on afterwards ends in the same bits as the one
// that was never killed, and its log holds every step once.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "cli/small_run.h"
#include "core/rng.h"
#include "support/slow_loops.h"

namespace litespark {
namespace {

constexpr int kSteps = 1500;

std::vector<std::string> settings(const std::string& out, bool is_async) {
  return {"--train.steps=" + std::to_string(kSteps), "--checkpoint.every=10", "--train.log_every=1000",
          // Measuring the peak takes longer than the run lives.
          "--meter.peak_tflops=1", std::string("--checkpoint.async=") + (is_async ? "true" : "false"), "--out=" + out};
}

/// What of a log must be equal in every run: of the steps' lines all before the timings.
std::string losses_of(const SmallRun& run, const std::string& out) {
  std::istringstream lines(run.text(out + "/metrics.jsonl"));
  std::string losses;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"loss\"") != std::string::npos) {
      losses += line.substr(0, line.find("\"tokens_per_second\"")) + "\n";
    }
  }
  return losses;
}

class Kill : public testing::Test {
 protected:
  /// Starts the run, kills it after a random time, until it was killed `kills` times; then lets it end. A run that
  /// ends by itself is checked and begun anew.
  void survive(int kills, bool is_async) {
    const std::string mode = is_async ? "async" : "sync";
    ASSERT_EQ(run_.train(settings("whole", is_async)).exit_code, 0);
    int in_a_save = 0;
    const RandomStream random(is_async ? 11 : 12, 1);
    int killed = 0;
    for (int round = 0; killed < kills; ++round) {
      const std::string out = mode + std::to_string(round);
      while (killed < kills && kill_once(out, is_async, std::chrono::milliseconds(random.below(draw_++, 300)))) {
        ++killed;
        in_a_save += has_partial_folder(out) ? 1 : 0;
      }
      const ProgramResult end = run_.train(settings(out, is_async));
      ASSERT_EQ(end.exit_code, 0) << out << ": " << end.errors;
      expect_like_whole(out);
      if (HasFailure()) return;
      std::filesystem::remove_all(run_.path(out));
    }
    RecordProperty("kills", killed);
    RecordProperty("kills_in_a_save", in_a_save);
    EXPECT_GT(in_a_save, kills / 20);
  }

  /// What a save leaves that was cut off: the proof that a kill came in the middle of one.
  bool has_partial_folder(const std::string& out) const {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(run_.path(out + "/checkpoints"), none)) {
      if (entry.path().filename().string().starts_with(".partial-")) return true;
    }
    return false;
  }

  /// False when the run ended before it could be killed.
  bool kill_once(const std::string& out, bool is_async, std::chrono::milliseconds delay) {
    RunningLitespark program(run_.train_arguments(settings(out, is_async)), run_.path("").string());
    std::this_thread::sleep_for(delay);
    program.send(SIGKILL);
    const ProgramResult result = program.wait();
    EXPECT_TRUE(result.exit_code == 128 + SIGKILL || result.exit_code == 0) << result.exit_code << result.errors;
    return result.exit_code == 128 + SIGKILL;
  }

  void expect_like_whole(const std::string& out) {
    const std::string last = "/checkpoints/step-" + std::to_string(kSteps) + "/";
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json"}) {
      ASSERT_FALSE(run_.text("whole" + last + file).empty()) << file;
      EXPECT_EQ(run_.text(out + last + file), run_.text("whole" + last + file)) << out << " " << file;
    }
    EXPECT_EQ(losses_of(run_, out), losses_of(run_, "whole")) << out;
  }

  SmallRun run_;
  uint64_t draw_ = 0;
};

TEST_F(Kill, ARunThatSavesBesideItsStepsEndsInTheSameBits) {  // fault:A1, report:B6, report:B36
  survive(test::slow_loops(20, 100), true);
}

TEST_F(Kill, ARunThatSavesBetweenItsStepsEndsInTheSameBits) {  // fault:A1, report:B6
  survive(test::slow_loops(20, 100), false);
}

}  // namespace
}  // namespace litespark
