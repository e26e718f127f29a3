// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "elastic.h"
#include "support/error_text.h"

namespace litespark::cli {
namespace {

RunConfig config_of(int64_t gpus, int64_t tp, int64_t accumulation) {
  RunConfig config;
  config.cluster.gpus = gpus;
  config.cluster.tp = tp;
  config.train.accumulation = accumulation;
  return config;
}

using Share = std::optional<RankShare>;

TEST(Elastic, RanksThatAreLeftShareTheSameMicroBatchesEvenly) {
  EXPECT_EQ(share_among(config_of(4, 1, 3), 3), Share({.gpus = 3, .accumulation = 4}));
  EXPECT_EQ(share_among(config_of(4, 1, 1), 3), Share({.gpus = 2, .accumulation = 2}));  // 4 among 3 is not even
  EXPECT_EQ(share_among(config_of(8, 2, 3), 7), Share({.gpus = 6, .accumulation = 4}));
  EXPECT_EQ(share_among(config_of(4, 1, 2), 4), Share({.gpus = 4, .accumulation = 2}));
  EXPECT_EQ(share_among(config_of(4, 4, 2), 3), std::nullopt);
  EXPECT_EQ(share_among(config_of(2, 1, 2), 0), std::nullopt);
  for (int64_t gpus = 1; gpus <= 12; ++gpus) {
    for (int64_t left = 1; left <= gpus; ++left) {
      const Share share = share_among(config_of(gpus, 1, 5), left);
      ASSERT_TRUE(share);
      EXPECT_LE(share->gpus, left);
      EXPECT_EQ(share->gpus * share->accumulation, gpus * 5);
    }
  }
}

TEST(Elastic, InterleavedStagesTakeMicroBatchesInWholeRounds) {
  RunConfig config = config_of(12, 1, 4);
  config.cluster.pp = 4;
  EXPECT_EQ(share_among(config, 11), Share({.gpus = 8, .accumulation = 6}));
  config.cluster.vpp = 2;
  EXPECT_EQ(share_among(config, 11), Share({.gpus = 4, .accumulation = 12}));  // 6 are no whole rounds of 4
}

const CommandLine kLine = {
    .arguments = {"train", "run.toml", "--gpus=4", "--optim.lr=1e-3", "--train.accumulation=3"},
    .positionals = {"run.toml"},
    .overrides = {
        {"optim.lr", "1e-3"}, {"train.accumulation", "3"}, {"cluster.gpus", "4"}, {"checkpoint.resume", "never"}}};

TEST(Elastic, AnotherStartKeepsEverySettingButItsShareAndWhereItResumes) {
  const RankShare share = {.gpus = 3, .accumulation = 4};
  EXPECT_EQ(restart_arguments(kLine, share, true),
            (std::vector<std::string>{"train", "run.toml", "--optim.lr=1e-3", "--cluster.gpus=3", "--cluster.dp=0",
                                      "--train.accumulation=4", "--checkpoint.resume=auto"}));
  EXPECT_EQ(restart_arguments(kLine, share, false),
            (std::vector<std::string>{"train", "run.toml", "--optim.lr=1e-3", "--checkpoint.resume=never",
                                      "--cluster.gpus=3", "--cluster.dp=0", "--train.accumulation=4"}));
}

/// Starts that end as given, one after another, each behind a checkpoint of that step (-1: none).
struct Story {
  std::vector<std::pair<LaunchEnd, int64_t>> chapters;
  std::vector<LaunchRequest> requests = {};

  ExitCode play(RunConfig config, std::vector<std::string> devices = {}) {
    std::optional<int64_t> newest;
    return run_elastic({.config = std::move(config),
                        .line = kLine,
                        .devices = std::move(devices),
                        .launch =
                            [&](const LaunchRequest& request) {
                              const auto& [end, step] = chapters.at(requests.size());
                              requests.push_back(request);
                              if (step >= 0) newest = step;
                              return end;
                            },
                        .newest_step = [&] { return newest; }});
  }
};

TEST(Elastic, GoesOnWithoutTheRankAndTheDeviceThatWereLost) {
  Story story{.chapters = {{{.code = ExitCode::kPeerLost, .lost = {1}}, 40}, {{.code = ExitCode::kDone}, 80}}};
  EXPECT_EQ(story.play(config_of(4, 1, 3), {"0", "1", "2", "3"}), ExitCode::kDone);
  ASSERT_EQ(story.requests.size(), 2U);
  EXPECT_EQ(story.requests[0].arguments, kLine.arguments);
  EXPECT_EQ(story.requests[1].num_ranks, 3);
  EXPECT_EQ(story.requests[1].attempt, 1);
  EXPECT_EQ(story.requests[1].devices, (std::vector<std::string>{"0", "2", "3"}));
}

TEST(Elastic, ARankThatWasLeftOutStandsByForTheNextThatIsLost) {
  Story story{.chapters = {{{.code = ExitCode::kPeerLost, .lost = {3}}, 1},
                           {{.code = ExitCode::kHardware, .lost = {0}}, 2},
                           {{.code = ExitCode::kDone}, 3}}};
  EXPECT_EQ(story.play(config_of(4, 1, 1), {"a", "b", "c", "d"}), ExitCode::kDone);
  ASSERT_EQ(story.requests.size(), 3U);
  EXPECT_EQ(story.requests[1].num_ranks, 2);  // 4 micro-batches among 3 are not even
  EXPECT_EQ(story.requests[2].num_ranks, 2);
  EXPECT_EQ(story.requests[2].devices, (std::vector<std::string>{"b", "c"}));
}

TEST(Elastic, EndsWithWhateverIsNoLossAndWhenItIsAskedTo) {
  for (const LaunchEnd& end : {LaunchEnd{.code = ExitCode::kConfig}, LaunchEnd{.code = ExitCode::kStopped},
                               LaunchEnd{.code = ExitCode::kNumeric},
                               LaunchEnd{.code = ExitCode::kPeerLost, .lost = {0}, .was_asked = true}}) {
    Story story{.chapters = {{end, 5}}};
    EXPECT_EQ(story.play(config_of(4, 1, 3)), end.code);
    EXPECT_EQ(story.requests.size(), 1U);
  }
}

// fault:B13
TEST(Elastic, StopsAfterSomeStartsWithoutProgressAndKeepsTheCode) {
  const LaunchEnd loss = {.code = ExitCode::kPeerLost};
  Story story{.chapters = {{loss, 1}, {loss, 1}, {loss, 2}, {loss, 2}, {loss, 2}, {loss, 2}, {loss, 2}}};
  RunConfig config = config_of(4, 1, 3);
  config.distribution.max_restarts = 2;
  EXPECT_EQ(story.play(config), ExitCode::kPeerLost);
  EXPECT_EQ(story.requests.size(), 5U);  // two without news behind step 1 and its first, three behind step 2
}

TEST(Elastic, EndsWhenNotOneReplicaIsLeft) {
  Story story{.chapters = {{{.code = ExitCode::kPeerLost, .lost = {1}}, 1}}};
  EXPECT_EQ(story.play(config_of(4, 4, 3)), ExitCode::kPeerLost);
}

}  // namespace
}  // namespace litespark::cli
