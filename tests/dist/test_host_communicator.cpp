// SPDX-License-Identifier: Apache-2.0
// Over a link that does what a test tells it; real messages are the conformance cases' matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "dist/host_communicator.h"
#include "support/error_text.h"

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
  bool must_carry(const CallLabel& label) const override { return label.kind == must_carry_kind; }
  void abort(const std::string&) noexcept override {
    if (!is_aborted.exchange(true)) was_aborted.set_value();
  }

  std::function<void(std::span<const Message>)> on_transfer;
  std::atomic<bool> is_aborted = false;
  std::promise<void> was_aborted;
  std::vector<Deadline> deadlines;
  std::optional<CallKind> must_carry_kind;
};

using OnTransfer = std::function<void(std::span<const Message>)>;

std::vector<std::unique_ptr<Link>> two_lanes(OnTransfer on_first, OnTransfer on_second) {
  std::vector<std::unique_ptr<Link>> links;
  links.push_back(std::make_unique<ScriptedLink>(std::move(on_first)));
  links.push_back(std::make_unique<ScriptedLink>(std::move(on_second)));
  return links;
}

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

TEST(HostCommunicator, ItsRecordSaysWhenACallWasIssuedMadeAndWaitedForAndWhichOnesNeverEnded) {
  const auto record = std::make_shared<CallRecord>(10);
  int num_transfers = 0;
  HostCommunicator communicator(std::make_unique<ScriptedLink>([&](std::span<const Message>) {
                                  if (++num_transfers == 3) throw LinkFailure("gone");
                                }),
                                {.record = record});
  std::array<float, 4> values = {};
  communicator.set_step(7);
  const CommTicket first = communicator.broadcast(one_float(values[0]), 1);
  const CommTicket second = communicator.broadcast(one_float(values[1]), 1);
  communicator.wait(second);
  EXPECT_THROW(communicator.wait(communicator.broadcast(one_float(values[2]), 1)), CommError);
  const std::vector<RecordedCall> calls = record->calls();
  ASSERT_EQ(calls.size(), 3u);
  for (const RecordedCall& call : calls) {
    EXPECT_EQ(call.step, 7);
    EXPECT_LE(call.issued, call.begun);
  }
  for (size_t i = 0; i < 2; ++i) EXPECT_LE(calls[i].begun, calls[i].ended);
  EXPECT_LE(calls[0].ended, calls[1].begun);  // there is one lane
  EXPECT_TRUE(std::isnan(calls[0].wait_begun)) << first.id;
  EXPECT_LE(calls[1].issued, calls[1].wait_begun);
  EXPECT_LE(calls[1].ended, calls[1].wait_ended);
  EXPECT_TRUE(std::isnan(calls[2].ended));
  EXPECT_FALSE(std::isnan(calls[2].wait_begun));
  EXPECT_TRUE(std::isnan(calls[2].wait_ended));
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

TEST(HostCommunicator, TheNextCallsBytesLeaveWhileACallIsUnderWay) {
  std::promise<void> second_has_begun;
  HostCommunicator communicator(two_lanes([&](std::span<const Message>) { second_has_begun.get_future().wait(); },
                                          [&](std::span<const Message>) { second_has_begun.set_value(); }),
                                {});
  std::array<float, 2> values = {};
  communicator.broadcast(one_float(values[0]), 1);
  communicator.wait(communicator.broadcast(one_float(values[1]), 1));  // one after the other would not come here
}

TEST(HostCommunicator, CallsThatTouchTheSameMemoryRunInTheOrderOfTheirIssue) {
  std::mutex mutex;
  std::vector<int64_t> numbers;
  const auto note = [&](std::span<const Message> received) {
    const std::lock_guard lock(mutex);
    numbers.push_back(received.front().label.number);
  };
  const auto note_late = [&](std::span<const Message> received) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    note(received);
  };
  HostCommunicator communicator(two_lanes(note_late, note), {});
  float value = 0;
  CommTicket last;
  for (int call = 0; call < 6; ++call) last = communicator.broadcast(one_float(value), 1);
  communicator.wait(last);
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(HostCommunicator, ATicketIsDoneWhenAllCallsUpToItAre) {
  std::promise<void> gate;
  std::promise<void> second_is_there;
  HostCommunicator communicator(two_lanes([&](std::span<const Message>) { gate.get_future().wait(); },
                                          [&](std::span<const Message>) { second_is_there.set_value(); }),
                                {});
  std::array<float, 2> values = {};
  communicator.broadcast(one_float(values[0]), 1);
  const CommTicket second = communicator.broadcast(one_float(values[1]), 1);
  second_is_there.get_future().wait();
  auto waiting = std::async(std::launch::async, [&] { communicator.wait(second); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  gate.set_value();
  waiting.get();
}

TEST(HostCommunicator, AFailureOfTheSecondCallUnderWayIsNamedAsSuch) {
  std::vector<std::unique_ptr<Link>> links;
  auto first = std::make_unique<ScriptedLink>(OnTransfer());
  std::future<void> first_is_aborted = first->was_aborted.get_future();
  first->on_transfer = [&](std::span<const Message>) {
    first_is_aborted.wait();
    throw LinkFailure("aborted");
  };
  links.push_back(std::move(first));
  links.push_back(
      std::make_unique<ScriptedLink>([](std::span<const Message>) { throw LinkFailure("rank 1 fell over"); }));
  HostCommunicator communicator(std::move(links), {.timeout_seconds = 9});
  communicator.set_step(12);
  std::array<float, 2> values = {};
  const CommTicket under_way = communicator.broadcast(one_float(values[0]), 1);
  communicator.broadcast(one_float(values[1]), 1);
  const std::string text = error_text<CommError>([&] { communicator.wait(under_way); });
  EXPECT_TRUE(contains(text, "broadcast from rank 1 of f32 [1], call 2, step 12: rank 1 fell over")) << text;
  EXPECT_THROW(communicator.barrier(), CommError);
}

// Else a call of another lane might write into memory that the thrower's caller has freed.
TEST(HostCommunicator, AFailureIsThrownWhenNoLaneIsAtWorkAnyMore) {
  std::atomic<bool> has_returned = false;
  std::vector<std::unique_ptr<Link>> links;
  auto first = std::make_unique<ScriptedLink>(OnTransfer());
  std::future<void> first_is_aborted = first->was_aborted.get_future();
  std::promise<void> first_is_at_work;
  std::future<void> is_at_work = first_is_at_work.get_future();
  first->on_transfer = [&](std::span<const Message>) {
    first_is_at_work.set_value();
    first_is_aborted.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    has_returned = true;
    throw LinkFailure("aborted");
  };
  links.push_back(std::move(first));
  links.push_back(std::make_unique<ScriptedLink>([&](std::span<const Message>) {
    is_at_work.wait();
    throw LinkFailure("rank 1 fell over");
  }));
  HostCommunicator communicator(std::move(links), {.timeout_seconds = 9});
  std::array<float, 2> values = {};
  communicator.broadcast(one_float(values[0]), 1);
  const CommTicket failing = communicator.broadcast(one_float(values[1]), 1);
  EXPECT_THROW(communicator.wait(failing), CommError);
  EXPECT_TRUE(has_returned);
}

/// Of rank 0 of 3, whose transfers wait until it is aborted, or fail.
struct MissingLink final : Link {
  std::string name() const override { return "missing"; }
  int rank() const override { return 0; }
  int size() const override { return 3; }
  void transfer(std::span<const Message>, std::span<const Message>, Deadline) override {
    has_begun.set_value();
    if (failure) {
      if (before_failure.valid()) before_failure.wait();
      throw *failure;
    }
    aborted.get_future().wait();
    throw LinkFailure("aborted");
  }
  void announce_failure(const std::string& why) noexcept override {
    if (announced.empty()) announced = why;
    is_announced = true;
  }
  std::optional<std::string> failure_of(int rank) override {
    if (rank != 1 || !is_announced) return std::nullopt;
    return told;
  }
  std::vector<int> missed_ranks() override { return missed; }
  void abort(const std::string&) noexcept override {
    if (!is_aborted.exchange(true)) aborted.set_value();
  }

  std::promise<void> has_begun;
  std::future<void> before_failure;
  std::promise<void> aborted;
  std::atomic<bool> is_aborted = false;
  std::atomic<bool> is_announced = false;
  std::string announced;
  std::optional<std::string> told;
  std::optional<LinkFailure> failure;
  std::vector<int> missed;
};

struct Failure {
  std::string text;
  std::vector<std::string> announced;  ///< on each lane
};

/// Of two calls under way at once, of which the second fails; `meanwhile` may do something beside it.
Failure failure_of_second(
    std::unique_ptr<MissingLink> first, std::unique_ptr<MissingLink> second,
    const std::function<void(HostCommunicator&, const MissingLink& second)>& meanwhile = [](auto&, auto&) {}) {
  second->before_failure = first->has_begun.get_future();
  const std::array<const MissingLink*, 2> lanes = {first.get(), second.get()};
  std::vector<std::unique_ptr<Link>> links;
  links.push_back(std::move(first));
  links.push_back(std::move(second));
  HostCommunicator communicator(std::move(links), {.timeout_seconds = 9});
  std::array<float, 2> values = {};
  communicator.broadcast(one_float(values[0]), 1);
  const CommTicket last = communicator.broadcast(one_float(values[1]), 1);
  meanwhile(communicator, *lanes[1]);
  const std::string text = error_text<CommError>([&] { communicator.wait(last); });
  return {.text = text, .announced = {lanes[0]->announced, lanes[1]->announced}};
}

// A rank that is ahead can miss this one, which waits for the lost one in an earlier call.
TEST(HostCommunicator, WhoIsToldOfAFailureSaysWhomItsOtherCallsMiss) {
  auto first = std::make_unique<MissingLink>();
  first->missed = {2};
  auto second = std::make_unique<MissingLink>();
  // Longer than what can be told: what this rank adds must not be what is cut off.
  const std::string told = "rank 1 gave up: no word from rank 0" + std::string(1000, '!');
  second->failure = LinkFailure(told, LinkFailure::Cause::kTold);
  const Failure failure = failure_of_second(std::move(first), std::move(second));
  const std::string expected =
      "call 2, step 0: other calls have no word from rank 2 (a call has 9 s); rank 1 gave up: no word from rank 0";
  EXPECT_TRUE(contains(failure.text, expected)) << failure.text;
  for (const std::string& announced : failure.announced) {
    EXPECT_TRUE(contains(announced.substr(0, 200), expected)) << announced;
  }
}

TEST(HostCommunicator, WhoIsToldOfAFailureAndMissesNobodyPassesItOn) {
  auto second = std::make_unique<MissingLink>();
  second->failure = LinkFailure("rank 1 gave up: it is tired", LinkFailure::Cause::kTold);
  const Failure failure = failure_of_second(std::make_unique<MissingLink>(), std::move(second));
  EXPECT_TRUE(contains(failure.text, "call 2, step 0: rank 1 gave up: it is tired (a call has 9 s)")) << failure.text;
}

TEST(HostCommunicator, WhoMissesARankHearsWhyThatOneGivesUpOnWhicheverLaneItIsTold) {
  auto first = std::make_unique<MissingLink>();
  first->told = "rank 1 gave up: no word from rank 2 before the deadline";  // once this rank has given up there too
  auto second = std::make_unique<MissingLink>();
  second->failure = LinkFailure::late(std::array{1});
  const Failure failure = failure_of_second(std::move(first), std::move(second));
  EXPECT_TRUE(contains(failure.text,
                       "no word from rank 1 before the deadline (a call has 9 s); rank 1 gave up: no word from rank 2"))
      << failure.text;
  // The others hear whom this rank misses before it hears anything itself.
  for (const std::string& announced : failure.announced) {
    EXPECT_TRUE(announced.ends_with("no word from rank 1 before the deadline (a call has 9 s)")) << announced;
  }
}

// The rendezvous may notice that somebody closes a connection while a lane still hears who was lost first.
TEST(HostCommunicator, WhatALaneFoundStandsBeforeALossThatIsToldMeanwhile) {
  auto second = std::make_unique<MissingLink>();
  second->failure = LinkFailure::late(std::array{1});
  const Failure failure = failure_of_second(std::make_unique<MissingLink>(), std::move(second),
                                            [](HostCommunicator& communicator, const MissingLink& failing) {
                                              while (!failing.is_announced) std::this_thread::yield();
                                              communicator.abort("rank 2 closed the connection");
                                            });
  EXPECT_TRUE(contains(failure.text, "call 2, step 0: no word from rank 1 before the deadline")) << failure.text;
  EXPECT_FALSE(contains(failure.text, "closed the connection")) << failure.text;
}

TEST(HostCommunicator, AnAbortNamesTheCallThatWasUnderWay) {
  auto only = std::make_unique<MissingLink>();
  std::future<void> has_begun = only->has_begun.get_future();
  HostCommunicator communicator(std::move(only), {});
  float value = 0;
  communicator.set_step(7);
  const CommTicket ticket = communicator.broadcast(one_float(value), 1);
  has_begun.wait();
  communicator.abort("rank 1 closed the connection");
  const std::string text = error_text<CommError>([&] { communicator.wait(ticket); });
  EXPECT_TRUE(contains(
      text, "aborted: rank 1 closed the connection; under way: broadcast from rank 1 of f32 [1], call 1, step 7"))
      << text;
}

/// Writes down when it is left.
struct LeavingLink final : Link {
  LeavingLink(std::string lane, std::vector<std::string>& notes) : lane_(std::move(lane)), notes_(notes) {}
  ~LeavingLink() override { notes_.push_back(lane_ + " waits"); }
  std::string name() const override { return "leaving"; }
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void transfer(std::span<const Message>, std::span<const Message>, Deadline) override {}
  void announce_leave() noexcept override { notes_.push_back(lane_ + " says it"); }
  void abort(const std::string&) noexcept override {}

 private:
  std::string lane_;
  std::vector<std::string>& notes_;
};

// Else a rank that the others do not answer would wait for them once a lane.
TEST(HostCommunicator, ARankSaysThatItLeavesOnAllLanesBeforeItWaitsOnOne) {
  std::vector<std::string> notes;
  {
    std::vector<std::unique_ptr<Link>> links;
    for (const char* lane : {"a", "b", "c"}) links.push_back(std::make_unique<LeavingLink>(lane, notes));
    const HostCommunicator communicator(std::move(links), {});
  }
  ASSERT_EQ(notes.size(), 6u);
  std::sort(notes.begin() + 3, notes.end());  // no matter which lane goes first
  EXPECT_EQ(notes, (std::vector<std::string>{"a says it", "b says it", "c says it", "a waits", "b waits", "c waits"}));
}

TEST(HostCommunicator, CallsTakeTheLaneWithTheFewestBytesAndNeighboursTheFirst) {
  std::mutex mutex;
  std::vector<std::pair<int64_t, int>> lanes;
  const auto note = [&](int lane) {
    return [&, lane](std::span<const Message> received) {
      const std::lock_guard lock(mutex);
      lanes.emplace_back(received.front().label.number, lane);
    };
  };
  auto links = two_lanes(note(0), note(1));
  static_cast<ScriptedLink&>(*links.front()).must_carry_kind = CallKind::kAllToAll;
  HostCommunicator communicator(std::move(links), {});
  std::array<float, 64> memory = {};
  const auto floats = [&](size_t first, int64_t count) {
    return Tensor{.data = &memory[first], .dtype = DType::kF32, .shape = {count}, .device = Device::kCpu};
  };
  communicator.broadcast(floats(0, 3), 1);
  for (size_t call = 0; call < 3; ++call) communicator.broadcast(floats(4 + call, 1), 1);
  communicator.exchange(floats(8, 1), 1, floats(9, 1), 1);
  communicator.all_to_all(floats(10, 2), floats(12, 2));
  communicator.all_to_all(floats(14, 2), floats(16, 2));
  communicator.wait(communicator.broadcast(floats(18, 4), 1));
  std::sort(lanes.begin(), lanes.end());
  const std::vector<std::pair<int64_t, int>> expected = {{1, 0}, {2, 1}, {3, 1}, {4, 1},
                                                         {5, 0}, {6, 0}, {7, 0}, {8, 0}};
  EXPECT_EQ(lanes, expected);
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
