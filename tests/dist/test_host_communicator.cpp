// SPDX-License-Identifier: Apache-2.0
// Over a link that does what a test tells it; real messages are the conformance cases' matter.
#include <gtest/gtest.h>

#include <array>
#include <future>

#include "dist/host_communicator.h"

namespace litespark::dist {
namespace {

struct ScriptedLink final : Link {
  explicit ScriptedLink(std::function<void(std::span<const Message>)> on_transfer_function)
      : on_transfer(std::move(on_transfer_function)) {}
  std::string name() const override { return "scripted"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void transfer(std::span<const Message>, std::span<const Message> received, Deadline deadline) override {
    deadlines.push_back(deadline);
    on_transfer(received);
  }
  void abort(const std::string&) noexcept override { was_aborted.set_value(); }

  std::function<void(std::span<const Message>)> on_transfer;
  std::promise<void> was_aborted;
  std::vector<Deadline> deadlines;
};

Tensor one_float(float& value) {
  return {.data = &value, .dtype = DType::kF32, .shape = {1}, .device = Device::kCpu};
}

TEST(HostCommunicator, CallsRunBesideTheirCallerAndInOrder) {
  std::promise<void> gate;
  std::vector<int64_t> numbers;
  HostCommunicator communicator(std::make_unique<ScriptedLink>([&](std::span<const Message> received) {
                                  if (numbers.empty()) gate.get_future().wait();
                                  numbers.push_back(received.front().label.number);
                                }),
                                {});
  std::array<float, 3> values = {};
  std::vector<CommTicket> tickets;
  tickets.reserve(values.size());
  for (float& value : values) tickets.push_back(communicator.broadcast(one_float(value), 1));
  gate.set_value();  // a communicator that made calls at once would not come here
  communicator.wait(tickets.back());
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, 2, 3}));
}

TEST(HostCommunicator, KeepsTheFirstFailureAndMakesNoLaterCall) {
  int num_transfers = 0;
  auto link = std::make_unique<ScriptedLink>([&](std::span<const Message>) {
    ++num_transfers;
    throw LinkFailure("rank 1 fell over");
  });
  std::future<void> aborted = link->was_aborted.get_future();
  HostCommunicator communicator(std::move(link), {.timeout_seconds = 9});
  communicator.set_step(12);
  float value = 0;
  const CommTicket ticket = communicator.broadcast(one_float(value), 1);
  const std::string expected =
      "[scripted rank 0 of 2] broadcast from rank 1 of f32 [1], call 1, step 12: rank 1 fell over (a call has 9 s)";
  for (int round = 0; round < 2; ++round) {
    try {
      communicator.wait(ticket);
      FAIL();
    } catch (const CommError& error) {
      EXPECT_EQ(error.what(), expected);
      EXPECT_EQ(error.exit_code(), ExitCode::kPeerLost);
    }
  }
  EXPECT_THROW(communicator.broadcast(one_float(value), 1), CommError);
  EXPECT_THROW(communicator.barrier(), CommError);
  aborted.wait();  // the others were told
  EXPECT_EQ(num_transfers, 1);
}

TEST(HostEngine, LaterStepsOfACallAreGivenUpLater) {
  ScriptedLink link([](std::span<const Message>) {});
  HostEngine engine(link, {0, 1});
  const Deadline deadline = std::chrono::steady_clock::now();
  for (int call = 0; call < 2; ++call) {
    engine.set_deadline(deadline);
    for (int step = 0; step < 3; ++step) engine.transfer({}, {});
  }
  ASSERT_EQ(link.deadlines.size(), 6u);
  for (size_t first : {size_t{0}, size_t{3}}) {
    EXPECT_EQ(link.deadlines[first], deadline);
    EXPECT_LT(link.deadlines[first], link.deadlines[first + 1]);
    EXPECT_LT(link.deadlines[first + 1], link.deadlines[first + 2]);
  }
}

}  // namespace
}  // namespace litespark::dist
