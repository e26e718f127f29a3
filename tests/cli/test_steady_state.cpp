// SPDX-License-Identifier: Apache-2.0
// Requests for memory while steps run, by who makes them: a preloaded library counts under the real program, from one
// step's record to another's. Lines of the log, energy records and samples of the leak watch lie in between.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/small_run.h"
#include "support/sanitizers.h"

namespace litespark {
namespace {

class SteadyState : public testing::Test {
 protected:
  void SetUp() override {
    if (test::kHasSanitizersMalloc)
      GTEST_SKIP() << "sanitizers bring a malloc of their own; an interposed one would hide it";
  }

  struct Counts {
    int64_t steps = 0, ours = -1, onednn = -1;
    std::string sites;  ///< of ours, for addr2line
  };

  Counts count(const std::string& steps, const std::vector<std::string>& settings) const {
    std::vector<std::string> more = {"--train.steps=45",          "--train.log_every=5",      "--meter.peak_tflops=1",
                                     "--checkpoint.at_end=false", "--meter.timeline_every=0", "--device.threads=2"};
    more.insert(more.end(), settings.begin(), settings.end());
    const std::string file = run_.path("counts").string();
    const ProgramResult result = run_.train(more, {"env", "LD_PRELOAD=" LITESPARK_COUNTING_MALLOC,
                                                   "LITESPARK_COUNT_STEPS=" + steps, "LITESPARK_COUNT_FILE=" + file});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    Counts counts;
    std::istringstream lines(run_.text("counts"));
    for (std::string name, value; lines >> name && std::getline(lines, value);) {
      if (name == "steps") counts.steps = std::stoll(value);
      if (name == "ours") counts.ours = std::stoll(value);
      if (name == "onednn") counts.onednn = std::stoll(value);
      if (name == "site") counts.sites += value + "\n";
    }
    return counts;
  }

  void expect_none(const std::vector<std::string>& settings) const {
    const Counts counts = count("6-44", settings);
    EXPECT_EQ(counts.steps, 39);
    EXPECT_EQ(counts.ours, 0) << "offsets in the program, innermost first:\n" << counts.sites;
  }

  SmallRun run_;
};

TEST_F(SteadyState, AsksForNoMemoryInF32) {
  expect_none({"--precision.compute=fp32"});
}

TEST_F(SteadyState, AsksForNoMemoryInBf16WithAccumulation) {
  expect_none({"--precision.compute=bf16", "--train.accumulation=2"});
}

TEST_F(SteadyState, AsksForNoMemoryOnRecomputedTextWithASpikeGuard) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "In the beginning was word " + std::to_string(i) + ".\n";
  std::ofstream(run_.path("text.txt")) << text;
  expect_none({"--data.source=text", "--data.path=text.txt", "--model.vocab_size=256", "--memory.recompute=block",
               "--train.spike_factor=100"});
}

TEST_F(SteadyState, IsNotYetThereInTheFirstSteps) {
  const Counts counts = count("2-4", {});
  EXPECT_EQ(counts.steps, 3);
  EXPECT_GT(counts.ours, 0) << "the third step writes memory.json: a counter that counts must see it";
}

}  // namespace
}  // namespace litespark
