// SPDX-License-Identifier: Apache-2.0
// Ranks on hosts of their own: what links and middle boxes do to a job. Every case ends in right sums or in exit
// code 7.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "core/error.h"
#include "rank_processes.h"
#include "support/error_text.h"
#include "support/faulty_proxy.h"
#include "support/network_hosts.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

using test::FaultyProxy;
using test::Middle;
using test::NetworkHosts;
using test::RankProcesses;

constexpr int kLost = static_cast<int>(ExitCode::kPeerLost);

/// Rank r on host r.
class HostsJob {
 public:
  HostsJob(const NetworkHosts& hosts, int size, const std::string& task, const std::string& engine = "gloo")
      : processes_(commands(hosts, size, task, engine)) {}
  RankProcesses* operator->() { return &processes_; }
  std::string fault_of(int rank) const { return test::fault_of_failed_rank(processes_, rank); }

 private:
  std::vector<std::vector<std::string>> commands(const NetworkHosts& hosts, int size, const std::string& task,
                                                 const std::string& engine) {
    const std::string secret = (folder_.path() / "secret").string();
    std::ofstream(secret) << std::string(32, 'k');
    chmod(secret.c_str(), 0600);
    std::vector<std::vector<std::string>> result;
    for (int rank = 0; rank < size; ++rank) {
      std::vector<std::string> words = hosts.on(rank);
      for (const std::string& word : {std::string(LITESPARK_RANK_PROCESS), engine, std::to_string(rank),
                                      std::to_string(size), hosts.address(0) + ":29500", secret, task})
        words.push_back(word);
      result.push_back(words);
    }
    return result;
  }

  test::TemporaryFolder folder_;
  RankProcesses processes_;
};

class GlooNetwork : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = NetworkHosts::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

TEST_F(GlooNetwork, HostsBehindALimitedRateDoWhatEveryCallSays) {
  NetworkHosts hosts(3);
  hosts.limit_rate("200mbit");
  HostsJob job(hosts, 3, "conformance");
  ASSERT_TRUE(job->await_ends(120));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job->exit_code(rank), 0) << job->output(rank);
}

// fault:B7
TEST_F(GlooNetwork, ACutLinkEndsAllAtTheDeadlineWhoNameWhomTheyMiss) {
  NetworkHosts hosts(3);
  HostsJob job(hosts, 3, "endless");
  ASSERT_TRUE(job->await_lines(2, 5, 60));
  hosts.cut(2);
  ASSERT_TRUE(job->await_ends(60));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job->exit_code(rank), kLost) << job->output(rank);
  for (const int rank : {0, 1}) EXPECT_TRUE(test::is_missed(job->output(rank), 2)) << job->output(rank);
  EXPECT_TRUE(contains(job->output(2), "no word from rank"));
  EXPECT_TRUE(contains(job->output(2), "before the deadline"));
}

// fault:B7
TEST_F(GlooNetwork, ACutLinkEndsAllCallsUnderWayAndEverySurvivorNamesIt) {
  NetworkHosts hosts(3);
  hosts.limit_rate("1gbit");  // so that messages are on their way
  HostsJob job(hosts, 3, "under_way");
  ASSERT_TRUE(job->await_lines(2, 5, 60));
  hosts.cut(2);
  ASSERT_TRUE(job->await_ends(60));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job.fault_of(rank), "");
  // Also where a rank that had all it needed of the lost one first missed the other survivor, which waits for that one.
  for (const int rank : {0, 1}) EXPECT_TRUE(test::is_missed(job->output(rank), 2)) << job->output(rank);
}

// fault:B4
TEST_F(GlooNetwork, ARankThatIsKilledInTheMidstOfItsMessagesIsNamedByAllAtOnce) {
  NetworkHosts hosts(3);
  hosts.limit_rate("50mbit");  // a message takes longer than what is between messages
  for (int round = 0; round < 3; ++round) {
    HostsJob job(hosts, 3, "under_way");
    ASSERT_TRUE(job->await_lines(1, 1 + round, 60));
    job->send_signal(1, SIGKILL);
    ASSERT_TRUE(job->await_ends(60));
    for (const int rank : {0, 2}) {
      EXPECT_EQ(job.fault_of(rank), "");
      EXPECT_TRUE(contains(job->output(rank), "rank 1 is lost")) << job->output(rank);
      EXPECT_FALSE(contains(job->output(rank), "before the deadline")) << job->output(rank);
    }
  }
}

// fault:B4: a survivor that closes takes back half of a message to the other one, which must not take it for the lost
// one.
TEST_F(GlooNetwork, ARankThatIsKilledWhileSurvivorsAreInTheMidstOfTheirMessagesIsNamedByBoth) {
  NetworkHosts hosts(3);
  hosts.limit_rate("50mbit");  // 1.3 s for all pieces
  for (int round = 0; round < 3; ++round) {
    HostsJob job(hosts, 3, "leave");
    for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(job->await_lines(rank, 1, 60));
    usleep(200000);
    job->send_signal(1, SIGKILL);
    ASSERT_TRUE(job->await_ends(60));
    for (const int rank : {0, 2}) {
      EXPECT_EQ(job->exit_code(rank), kLost) << job->output(rank);
      EXPECT_TRUE(contains(job->output(rank), "rank 1 is lost")) << job->output(rank);
      EXPECT_FALSE(contains(job->output(rank), "before the deadline")) << job->output(rank);
    }
  }
}

// fault:B7
TEST_F(GlooNetwork, ALinkThatHealsBeforeTheDeadlineCostsNothingButTime) {
  NetworkHosts hosts(2);
  hosts.limit_rate("100mbit");  // so that the job outlives the cut
  HostsJob job(hosts, 2, "sums");
  ASSERT_TRUE(job->await_lines(1, 3, 60));
  hosts.cut(1);
  usleep(400000);
  EXPECT_FALSE(job->has_ended(0) || job->has_ended(1));
  hosts.heal(1);
  ASSERT_TRUE(job->await_ends(60));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job->exit_code(rank), 0) << job->output(rank);
    EXPECT_TRUE(contains(job->output(rank), "all sums are right"));
  }
}

TEST_F(GlooNetwork, WhoLeavesFirstTakesNothingAwayFromTheOthers) {
  NetworkHosts hosts(2);
  hosts.limit_rate("100mbit");  // so that the last pieces are on their way for long
  for (int round = 0; round < 3; ++round) {
    HostsJob job(hosts, 2, "leave");
    ASSERT_TRUE(job->await_ends(60));
    for (const int rank : {0, 1}) {
      EXPECT_EQ(job->exit_code(rank), 0) << job->output(rank);
      EXPECT_TRUE(contains(job->output(rank), "all pieces are right"));
    }
  }
}

TEST_F(GlooNetwork, BothWaysOfALinkAreBusyAtOnce) {
  NetworkHosts hosts(2);
  hosts.limit_rate("100mbit");
  HostsJob job(hosts, 2, "both_ways");
  ASSERT_TRUE(job->await_ends(60));
  constexpr double kOneWaySeconds = (2 << 20) * 8 / 100e6;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job->exit_code(rank), 0) << job->output(rank);
    EXPECT_LT(std::stod(job->output(rank)), 1.5 * kOneWaySeconds);
  }
}

// fault:B8
TEST_F(GlooNetwork, LostPacketsAreSentAgainAndSumsAreRight) {
  NetworkHosts hosts(2);
  hosts.lose_packets(0, 5);
  hosts.lose_packets(1, 5);
  HostsJob job(hosts, 2, "sums");
  ASSERT_TRUE(job->await_ends(90));
  for (const int rank : {0, 1}) EXPECT_TRUE(contains(job->output(rank), "all sums are right"));
}

class MulticastNetwork : public GlooNetwork {
 protected:
  /// Whether this build has none: its ranks take the engine for Gloo.
  static bool is_absent() {
#ifdef LITESPARK_HAS_NORM
    return false;
#else
    return true;
#endif
  }
};

TEST_F(MulticastNetwork, HostsDoWhatEveryCallSays) {
  if (is_absent()) GTEST_SKIP() << "this build has no NORM";
  NetworkHosts hosts(3);
  HostsJob job(hosts, 3, "conformance", "multicast");
  ASSERT_TRUE(job->await_ends(120));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job->exit_code(rank), 0) << job->output(rank);
}

// fault:B8
TEST_F(MulticastNetwork, LostPacketsAreSentAgainAndSumsAreRight) {
  if (is_absent()) GTEST_SKIP() << "this build has no NORM";
  NetworkHosts hosts(3);
  for (int host = 0; host < 3; ++host) hosts.lose_packets(host, 20);
  HostsJob job(hosts, 3, "sums", "multicast");
  ASSERT_TRUE(job->await_ends(90));
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(contains(job->output(rank), "all sums are right"));
}

TEST_F(MulticastNetwork, ACutLinkEndsAllAtTheDeadline) {
  if (is_absent()) GTEST_SKIP() << "this build has no NORM";
  NetworkHosts hosts(3);
  HostsJob job(hosts, 3, "endless", "multicast");
  ASSERT_TRUE(job->await_lines(2, 5, 60));
  hosts.cut(2);
  ASSERT_TRUE(job->await_ends(60));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job->exit_code(rank), kLost) << job->output(rank);
  for (const int rank : {0, 1}) EXPECT_TRUE(test::is_missed(job->output(rank), 2)) << job->output(rank);
}

/// A job of two whose every connection goes through a proxy.
struct ProxiedJob {
  ProxiedJob(const test::ProxyFaults& faults, const std::string& task)
      : hosts(2, Middle::kRouter), proxy(faults, hosts.middle_path()) {
    hosts.redirect_to(proxy.port());
    job.emplace(hosts, 2, task);
  }
  RankProcesses* operator->() { return job->operator->(); }

  NetworkHosts hosts;
  FaultyProxy proxy;
  std::optional<HostsJob> job;
};

// fault:B8
TEST_F(GlooNetwork, ADelayOnlySlows) {
  ProxiedJob job({.delay = std::chrono::milliseconds(5)}, "sums");
  ASSERT_TRUE(job->await_ends(90));
  for (const int rank : {0, 1}) EXPECT_TRUE(contains(job->output(rank), "all sums are right"));
}

// fault:B8
TEST_F(GlooNetwork, AConnectionThatIsResetEndsBothAtOnce) {
  ProxiedJob job({.reset_after = 1 << 20}, "sums");
  ASSERT_TRUE(job->await_ends(25));  // a call has 30 s
  EXPECT_GT(job.proxy.num_faults(), 0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job->exit_code(rank), kLost) << job->output(rank);
    EXPECT_TRUE(contains(job->output(rank), "rank " + std::to_string(1 - rank)));
  }
}

// fault:B8: Gloo tells nobody who waits for the rest of a message that it will not come.
TEST_F(GlooNetwork, AConnectionThatIsResetInTheMidstOfItsOnlyMessageEndsBothAtOnce) {
  ProxiedJob job({.reset_after = 2 << 20}, "leave");  // which has 4 MiB
  ASSERT_TRUE(job->await_ends(60));
  EXPECT_GT(job.proxy.num_faults(), 0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job->exit_code(rank), kLost) << job->output(rank);
    EXPECT_TRUE(contains(job->output(rank), "rank " + std::to_string(1 - rank)));
    EXPECT_FALSE(contains(job->output(rank), "before the deadline")) << job->output(rank);
  }
}

// fault:B9: TCP says nothing of it, since the proxy's packets are whole.
TEST_F(GlooNetwork, ABitThatIsTurnedOnTheWayEndsBothAndNamesWhoseMessageItWas) {
  for (const int64_t at : {1 << 20, (3 << 19) + 12345}) {  // of each connection; the calls share four
    ProxiedJob job({.flip_at = at}, "sums");
    ASSERT_TRUE(job->await_ends(25));  // a call has 30 s
    EXPECT_EQ(job.proxy.num_faults(), 1);
    std::string said;
    for (const int rank : {0, 1}) {
      EXPECT_EQ(job->exit_code(rank), kLost) << job->output(rank);
      EXPECT_FALSE(contains(job->output(rank), "all sums are right"));
      said += job->output(rank);
    }
    EXPECT_TRUE(contains(said, "came damaged: "));
  }
}

// fault:B8
TEST_F(GlooNetwork, AConnectionThatFallsSilentEndsBothAtTheDeadline) {
  ProxiedJob job({.silent_after = 20 << 20}, "endless");
  ASSERT_TRUE(job->await_ends(60));
  EXPECT_GT(job.proxy.num_faults(), 0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job->exit_code(rank), kLost) << job->output(rank);
    EXPECT_TRUE(contains(job->output(rank), "before the deadline"));
  }
}

// fault:B8
TEST_F(GlooNetwork, AConnectionThatIsResetEndsAllCallsUnderWayAtOnce) {
  ProxiedJob job({.reset_after = (5 << 20) + 4321}, "under_way");
  ASSERT_TRUE(job->await_ends(60));
  EXPECT_GT(job.proxy.num_faults(), 0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job.job->fault_of(rank), "");
    EXPECT_TRUE(contains(job->output(rank), "rank " + std::to_string(1 - rank)));
    EXPECT_FALSE(contains(job->output(rank), "before the deadline")) << job->output(rank);
  }
}

// fault:B9
TEST_F(GlooNetwork, ABitThatIsTurnedWhileSeveralCallsAreUnderWayEndsThemAllAndIsNamed) {
  for (const int64_t at : {1 << 20, (5 << 20) + 12345}) {
    ProxiedJob job({.flip_at = at}, "under_way");
    ASSERT_TRUE(job->await_ends(60));
    EXPECT_GT(job.proxy.num_faults(), 0);
    for (const int rank : {0, 1}) {
      EXPECT_EQ(job.job->fault_of(rank), "");
      EXPECT_FALSE(contains(job->output(rank), "before the deadline")) << job->output(rank);
      EXPECT_TRUE(contains(job->output(rank), "came damaged: ")) << job->output(rank);
    }
  }
}

// fault:B8
TEST_F(GlooNetwork, AConnectionThatFallsSilentEndsAllCallsUnderWayAtTheDeadline) {
  ProxiedJob job({.silent_after = (8 << 20) + 4321}, "under_way");
  ASSERT_TRUE(job->await_ends(60));
  EXPECT_GT(job.proxy.num_faults(), 0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job.job->fault_of(rank), "");
    EXPECT_TRUE(contains(job->output(rank), "before the deadline"));
  }
}

}  // namespace
}  // namespace litespark
