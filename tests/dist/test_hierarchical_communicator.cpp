// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "communicator_conformance.h"
#include "core/error.h"
#include "dist/comm_call.h"
#include "dist/hierarchical_communicator.h"
#include "dist/local_world.h"
#include "support/error_text.h"

namespace litespark {
namespace {

struct Hosts {
  int num_hosts;
  int ranks_per_host;
  int size() const { return num_hosts * ranks_per_host; }
};

std::string hosts_name(const testing::TestParamInfo<Hosts>& info) {
  return std::to_string(info.param.num_hosts) + "x" + std::to_string(info.param.ranks_per_host);
}

using Body = std::function<void(Communicator& communicator)>;

/// Threads as ranks, of which so many stand on each host. Unless it is said otherwise nothing is too short for two
/// levels.
void run_on_hosts(Hosts hosts, double timeout_seconds, const Body& body, int64_t direct_bytes = 0) {
  std::barrier<> levels_are_made(hosts.size());
  run_local_ranks(hosts.size(), {.timeout_seconds = timeout_seconds}, [&](Communicator& world) {
    const Hierarchy levels =
        make_hierarchical(world.split(0), {.host = world.rank() / hosts.ranks_per_host, .direct_bytes = direct_bytes});
    levels_are_made.arrive_and_wait();  // else a fault may reach a rank that is still in the making
    body(*levels.communicator);
  });
}

class HierarchicalConformance : public testing::TestWithParam<Hosts> {};

TEST_P(HierarchicalConformance, RanksDoWhatEveryCallSays) {
  for (const test::ConformanceCase& item : test::conformance_cases()) {
    SCOPED_TRACE(item.name);
    EXPECT_NO_THROW(run_on_hosts(GetParam(), 60, [&](Communicator& communicator) {
      const auto memory = test::make_host_memory();
      item.run(communicator, *memory);
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, HierarchicalConformance, testing::Values(Hosts{2, 2}), hosts_name);

TEST(HierarchicalCommunicator, EveryFaultEndsInAnErrorThatNamesIt) {
  for (const test::FaultCase& item : test::fault_cases()) {
    SCOPED_TRACE(item.name);
    EXPECT_NO_THROW(run_on_hosts(
        {2, 2}, test::kFaultTimeoutSeconds,
        [&](Communicator& communicator) {
          const auto memory = test::make_host_memory();
          item.run(communicator, *memory);
        },
        1 << 10));
  }
}

constexpr int64_t kElements = 12 * 1009;

float value_of(int rank, int64_t i) {
  return 1.0f / static_cast<float>(i + 7 * rank + 1);
}

std::vector<float> values_of(int rank) {
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[static_cast<size_t>(i)] = value_of(rank, i);
  return values;
}

Tensor tensor_of(std::vector<float>& values) {
  return {.data = values.data(),
          .dtype = DType::kF32,
          .shape = {static_cast<int64_t>(values.size())},
          .device = Device::kCpu};
}

/// The sum over hosts of the sum over a host's ranks, of `ranks` in their order.
std::vector<float> two_level_sum(const std::vector<int>& ranks, int ranks_per_host) {
  std::vector<float> sum;
  for (size_t first = 0; first < ranks.size(); first += static_cast<size_t>(ranks_per_host)) {
    std::vector<float> of_host = values_of(ranks[first]);
    for (int place = 1; place < ranks_per_host; ++place) {
      const std::vector<float> next = values_of(ranks[first + static_cast<size_t>(place)]);
      for (size_t i = 0; i < next.size(); ++i) of_host[i] += next[i];
    }
    if (sum.empty()) {
      sum = of_host;
    } else {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += of_host[i];
    }
  }
  return sum;
}

TEST(HierarchicalCommunicator, AddsHostByHostInOneOrderInEveryCall) {
  run_on_hosts({2, 3}, 60, [](Communicator& communicator) {
    const std::vector<float> expected = two_level_sum({0, 1, 2, 3, 4, 5}, 3);
    std::vector<float> whole = values_of(communicator.rank());
    communicator.wait(communicator.all_reduce(tensor_of(whole), Reduction::kSum));
    EXPECT_EQ(whole, expected);
    std::vector<float> sent = values_of(communicator.rank());
    std::vector<float> piece(kElements / 6);
    std::vector<float> gathered(kElements);
    // Both under way at once, on the same scratch memory.
    communicator.reduce_scatter(tensor_of(piece), tensor_of(sent), Reduction::kSum);
    communicator.wait(communicator.all_gather(tensor_of(gathered), tensor_of(piece)));
    EXPECT_EQ(gathered, expected);
    EXPECT_FALSE(communicator.is_ordered());
    EXPECT_EQ(communicator.name(), "local");
  });
}

TEST(HierarchicalCommunicator, IsAsNearToTheExactSumAsAFlatOne) {
  std::vector<double> exact(kElements);
  for (int rank = 0; rank < 6; ++rank) {
    for (int64_t i = 0; i < kElements; ++i) exact[static_cast<size_t>(i)] += static_cast<double>(value_of(rank, i));
  }
  run_on_hosts({3, 2}, 60, [&](Communicator& communicator) {
    std::vector<float> sum = values_of(communicator.rank());
    communicator.wait(communicator.all_reduce(tensor_of(sum), Reduction::kSum));
    for (size_t i = 0; i < exact.size(); ++i)
      ASSERT_NEAR(static_cast<double>(sum[i]), exact[i], exact[i] * 5 * 0x1p-24) << i;
  });
}

// A rank of the late one's host waits for it, and one of another host for that one: either may be named.
TEST(HierarchicalCommunicator, ALateRankEndsACallOfTwoLevelsOnAllRanks) {
  std::atomic<int> num_ended = 0;
  run_on_hosts({2, 2}, 1, [&](Communicator& communicator) {
    std::vector<float> sum = values_of(communicator.rank());
    while (communicator.rank() == 3 && num_ended < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::string text =
        error_text<CommError>([&] { communicator.wait(communicator.all_reduce(tensor_of(sum), Reduction::kSum)); });
    EXPECT_TRUE(communicator.rank() == 3 || contains(text, "no word from rank"));
    ++num_ended;
  });
}

TEST(HierarchicalCommunicator, AGroupOfEvenRanksHasTwoLevelsAgain) {
  run_on_hosts({2, 4}, 60, [](Communicator& communicator) {
    const int parity = communicator.rank() % 2;
    const auto group = communicator.split(parity);
    ASSERT_EQ(group->size(), 4);
    std::vector<float> sum = values_of(communicator.rank());
    group->wait(group->all_reduce(tensor_of(sum), Reduction::kSum));
    EXPECT_EQ(sum, two_level_sum({parity, 2 + parity, 4 + parity, 6 + parity}, 2));
    const auto pair = communicator.split(communicator.rank() / 2);  // both on one host
    EXPECT_TRUE(pair->is_ordered());
  });
}

TEST(HierarchicalCommunicator, ShortCallsAreTheFlatCommunicators) {
  run_local_ranks(4, {.timeout_seconds = 60}, [](Communicator& world) {
    const Hierarchy levels =
        make_hierarchical(world.split(0), {.host = world.rank() / 2, .direct_bytes = kElements * 4});
    std::vector<float> sum = values_of(world.rank());
    levels.communicator->wait(levels.communicator->all_reduce(tensor_of(sum), Reduction::kSum));
    EXPECT_EQ(sum, two_level_sum({0, 1, 2, 3}, 4));
  });
}

/// What is said of ranks on these hosts.
std::string layout_of(const std::vector<int>& hosts) {
  std::string layout;
  std::mutex mutex;
  run_local_ranks(static_cast<int>(hosts.size()), {.timeout_seconds = 60}, [&](Communicator& world) {
    const Hierarchy levels =
        make_hierarchical(world.split(0), {.host = hosts[static_cast<size_t>(world.rank())], .direct_bytes = 0});
    levels.communicator->barrier();
    const std::lock_guard lock(mutex);
    if (layout.empty()) layout = levels.layout;
    EXPECT_EQ(levels.layout, layout) << "on rank " << world.rank();
    EXPECT_NE(levels.has_levels, levels.communicator->is_ordered());
  });
  return layout;
}

TEST(HierarchicalCommunicator, StaysFlatWhereRanksDoNotStandEvenlyAndSaysWhy) {
  EXPECT_EQ(layout_of({0}), "1 rank of one host");
  EXPECT_EQ(layout_of({0, 0, 0}), "3 ranks of one host");
  EXPECT_EQ(layout_of({0, 1, 2}), "3 ranks, each on a host of its own");
  EXPECT_EQ(layout_of({0, 0, 1}), "3 ranks, not as many on each host");
  EXPECT_EQ(layout_of({0, 0, 1, 2, 2, 2}), "6 ranks, not as many on each host");
  EXPECT_EQ(layout_of({0, 1, 0, 1}), "4 ranks, those of a host not one after another");
  EXPECT_EQ(layout_of({0, 0, 4, 4}), "2 hosts of 2 ranks");
  EXPECT_EQ(layout_of({1, 1, 0, 0}), "2 hosts of 2 ranks");
}

TEST(HierarchicalCommunicator, TakesMemoryWhereItIsTold) {
  run_local_ranks(4, {.timeout_seconds = 60}, [](Communicator& world) {
    std::vector<int64_t> taken;
    const Hierarchy levels =
        make_hierarchical(world.split(0), {.host = world.rank() / 2,
                                           .allocate =
                                               [&](int64_t bytes) {
                                                 taken.push_back(bytes);
                                                 return std::shared_ptr<void>(new float[static_cast<size_t>(bytes) / 4],
                                                                              std::default_delete<float[]>());
                                               },
                                           .direct_bytes = 0});
    std::vector<float> sent = values_of(world.rank());
    std::vector<float> piece(kElements / 4);
    for (int round = 0; round < 3; ++round)
      levels.communicator->wait(
          levels.communicator->reduce_scatter(tensor_of(piece), tensor_of(sent), Reduction::kSum));
    EXPECT_EQ(taken, std::vector<int64_t>{kElements * 4 / 2});
  });
}

/// Rank 0 of 4 on 2 hosts of 2, whose calls do nothing; what groups are made is what make_hierarchical asks for.
class NotingCommunicator final : public Communicator {
 public:
  explicit NotingCommunicator(int size, std::vector<Tensor>* reduced) : size_(size), reduced_(reduced) {}
  std::string name() const override { return "noting"; }
  int rank() const override { return 0; }
  int size() const override { return size_; }
  bool is_ordered() const override { return true; }
  void set_step(int64_t) override {}
  CommTicket all_reduce(const Tensor&, Reduction) override { return {++num_calls_}; }
  CommTicket reduce_scatter(const Tensor&, const Tensor& data, Reduction) override {
    if (reduced_ != nullptr) reduced_->push_back(data);
    return {++num_calls_};
  }
  CommTicket all_gather(const Tensor&, const Tensor&) override { return {++num_calls_}; }
  CommTicket broadcast(const Tensor&, int) override { return {++num_calls_}; }
  CommTicket all_to_all(const Tensor&, const Tensor&) override { return {++num_calls_}; }
  CommTicket exchange(const Tensor&, int, const Tensor&, int) override { return {++num_calls_}; }
  void wait(CommTicket) override {}
  std::unique_ptr<Communicator> split(int) override {
    // Inside a host, all, between hosts, all: only what goes between hosts reads the scratch memory.
    const int number = num_splits_++;
    return std::make_unique<NotingCommunicator>(number % 2 == 0 ? 2 : size_, number == 2 ? reduced_ : nullptr);
  }
  void barrier() override {}
  void abort(const std::string&) override {}

 private:
  int size_;
  std::vector<Tensor>* reduced_;
  int num_splits_ = 0;
  int64_t num_calls_ = 0;
};

// Calls on the same memory wait for each other.
TEST(HierarchicalCommunicator, CallsThatFitSideBySideIntoTheScratchMemoryDoNotShareIt) {
  std::vector<int64_t> taken;
  std::vector<Tensor> between_hosts;
  std::vector<float> memory(1024);
  const auto* const first = reinterpret_cast<const std::byte*>(memory.data());
  const Hierarchy levels = make_hierarchical(std::make_unique<NotingCommunicator>(4, &between_hosts),
                                             {.allocate =
                                                  [&](int64_t bytes) {
                                                    taken.push_back(bytes);
                                                    return std::shared_ptr<void>(memory.data(), [](void*) {});
                                                  },
                                              .direct_bytes = 0});
  ASSERT_TRUE(levels.has_levels) << levels.layout;
  std::vector<float> data(2048);
  const auto offset_of_call = [&](int64_t elements) {
    const Tensor whole{.data = data.data(), .dtype = DType::kF32, .shape = {elements}, .device = Device::kCpu};
    levels.communicator->reduce_scatter(dist::piece_of(whole, 0, 4), whole, Reduction::kSum);
    return static_cast<const std::byte*>(between_hosts.back().data) - first;
  };
  EXPECT_EQ(offset_of_call(2048), 0);
  // Half of 400 floats each, from a multiple of 256 bytes on, as long as there are so many to the end.
  EXPECT_EQ(offset_of_call(400), 0);
  EXPECT_EQ(offset_of_call(400), 1024);
  EXPECT_EQ(offset_of_call(400), 2048);
  EXPECT_EQ(offset_of_call(400), 3072);
  EXPECT_EQ(offset_of_call(400), 0);
  EXPECT_EQ(offset_of_call(2048), 0);
  EXPECT_EQ(taken, std::vector<int64_t>{4096});
}

TEST(HierarchicalCommunicator, ReduceScattersAndGathersUnderWayAtOnceAreEachRight) {
  run_on_hosts({2, 2}, 60, [](Communicator& communicator) {
    const std::vector<float> expected = two_level_sum({0, 1, 2, 3}, 2);
    constexpr size_t kCalls = 12;
    std::array<std::vector<float>, kCalls> sent;
    std::array<std::vector<float>, kCalls> pieces;
    std::array<std::vector<float>, kCalls> gathered;
    CommTicket last;
    for (size_t call = 0; call < kCalls; ++call) {
      // The first is the longest, whose scratch memory has room for several of the others.
      const size_t elements = call == 0 ? kElements : 4 * (100 + 37 * call);
      sent[call] = values_of(communicator.rank());
      sent[call].resize(elements);
      pieces[call].resize(elements / 4);
      gathered[call].resize(elements);
      communicator.reduce_scatter(tensor_of(pieces[call]), tensor_of(sent[call]), Reduction::kSum);
      last = communicator.all_gather(tensor_of(gathered[call]), tensor_of(pieces[call]));
    }
    communicator.wait(last);
    for (const std::vector<float>& whole : gathered) {
      for (size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(whole[i], expected[i]) << "of " << whole.size();
    }
  });
}

}  // namespace
}  // namespace litespark
