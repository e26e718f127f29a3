// SPDX-License-Identifier: Apache-2.0
// `litespark train` with ranks on several hosts: the run of one, and the end of all when a link is cut.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/small_run.h"
#include "support/error_text.h"
#include "support/network_hosts.h"

namespace litespark {
namespace {

using test::NetworkHosts;

/// Ranks one after another on each host, started as a cluster's launcher would.
class NetworkRun {
 public:
  NetworkRun(int num_hosts, int ranks_per_host) : hosts(num_hosts), ranks_per_host_(ranks_per_host) {
    for (int host = 0; host < num_hosts; ++host) size_ += ranks_per_host;
    std::ofstream(run.path("secret")) << std::string(32, 's');
    std::filesystem::permissions(run.path("secret"),
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }

  std::vector<std::unique_ptr<RunningLitespark>> start(std::vector<std::string> settings) const {
    settings.push_back("--distribution.secret_file=secret");
    std::vector<std::unique_ptr<RunningLitespark>> ranks;
    for (int rank = 0; rank < size_; ++rank) {
      std::vector<std::string> launcher = hosts.on(rank / ranks_per_host_);
      for (const std::string& word :
           {std::string("env"), "LITESPARK_RANK=" + std::to_string(rank), "LITESPARK_SIZE=" + std::to_string(size_),
            "LITESPARK_LOCAL_RANK=" + std::to_string(rank % ranks_per_host_), std::string("LITESPARK_JOB=network"),
            std::string("LITESPARK_ATTEMPT=0"), "LITESPARK_HOST=" + hosts.address(0),
            std::string("LITESPARK_PORT=29500")})
        launcher.push_back(word);
      ranks.push_back(
          std::make_unique<RunningLitespark>(run.train_arguments(settings), run.path("").string(), "", launcher));
    }
    return ranks;
  }

  SmallRun run;
  NetworkHosts hosts;

 private:
  int ranks_per_host_;
  int size_ = 0;
};

class NetworkRanks : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = NetworkHosts::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

std::string losses_of(const std::string& metrics) {
  std::string losses;
  for (size_t at = metrics.find("\"loss\": "); at != std::string::npos; at = metrics.find("\"loss\": ", at + 1))
    losses += metrics.substr(at + 8, metrics.find(',', at) - at - 8) + " ";
  return losses;
}

TEST_F(NetworkRanks, AddUpHostByHostInTheSameBitsEveryTime) {
  const NetworkRun two(2, 2);
  for (const char* out : {"first", "again"}) {
    const auto ranks = two.start({"--distribution.verify_every=1", std::string("--out=") + out});
    for (const auto& rank : ranks) {
      const ProgramResult result = rank->wait();
      if (contains(result.errors, "this build has no Gloo")) GTEST_SKIP() << result.errors;
      ASSERT_EQ(result.exit_code, 0) << result.errors;
      EXPECT_EQ(result.output.find("reduction: hierarchical, 2 hosts of 2 ranks") != std::string::npos,
                rank == ranks.front());
    }
  }
  const std::string losses = losses_of(two.run.text("first/metrics.jsonl"));
  EXPECT_EQ(losses_of(two.run.text("again/metrics.jsonl")), losses);
  ASSERT_EQ(two.run.train({"--train.accumulation=4", "--out=one"}).exit_code, 0);
  std::istringstream found(losses);
  std::istringstream expected(losses_of(two.run.text("one/metrics.jsonl")));
  int num_steps = 0;
  for (double a = 0, b = 0; found >> a && expected >> b; ++num_steps) EXPECT_NEAR(a, b, 1e-4 * b);
  EXPECT_EQ(num_steps, 6);
}

// claim:L7: every way between hosts gives the same bits, and what is taken is said.
TEST_F(NetworkRanks, TakeAnyWayBetweenHostsToTheSameBits) {
  const NetworkRun two(2, 2);
  for (const char* tiers : {"sharded", "article", "auto"}) {
    const auto ranks = two.start({std::string("--distribution.tiers=") + tiers, std::string("--out=") + tiers});
    for (const auto& rank : ranks) {
      const ProgramResult result = rank->wait();
      if (contains(result.errors, "this build has no Gloo")) GTEST_SKIP() << result.errors;
      ASSERT_EQ(result.exit_code, 0) << result.errors;
      EXPECT_EQ(result.output.find("tiers between hosts") != std::string::npos,
                rank == ranks.front() && tiers != std::string("sharded"))
          << result.output;
    }
    EXPECT_EQ(losses_of(two.run.text(std::string(tiers) + "/metrics.jsonl")),
              losses_of(two.run.text("sharded/metrics.jsonl")));
    const std::string weights = "/checkpoints/step-6/model.safetensors";
    EXPECT_TRUE(two.run.text(tiers + weights) == two.run.text("sharded" + weights)) << tiers;
  }
}

// fault:B7
TEST_F(NetworkRanks, ACutLinkEndsTrainingOnAllHostsAndIsNamed) {
  NetworkRun two(2, 1);
  const auto ranks =
      two.start({"--train.steps=1000000", "--train.log_every=1", "--distribution.timeout_seconds=3", "--out=cut"});
  for (int i = 0; i < 3000 && two.run.text("cut/metrics.jsonl").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  two.hosts.cut(1);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const ProgramResult result = ranks[rank]->wait();
    if (contains(result.errors, "this build has no Gloo")) GTEST_SKIP() << result.errors;
    EXPECT_EQ(result.exit_code, 7) << result.errors;
    EXPECT_TRUE(contains(result.errors, "no word from rank " + std::to_string(1 - rank) + " before the deadline"));
  }
}

}  // namespace
}  // namespace litespark
