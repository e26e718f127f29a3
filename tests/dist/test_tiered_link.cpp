// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "dist/tiered_link.h"

namespace litespark::dist {
namespace {

/// Writes down what it is asked for.
class NotingLink final : public Link {
 public:
  explicit NotingLink(std::string name, std::vector<std::string>& notes) : name_(std::move(name)), notes_(notes) {}
  std::string name() const override { return name_; }
  int rank() const override { return 0; }
  int size() const override { return 3; }
  void transfer(std::span<const Message>, std::span<const Message>, Deadline) override { notes_.push_back(name_); }
  void announce_leave() noexcept override { notes_.push_back(name_ + " leaves"); }
  void announce_failure(const std::string& why) noexcept override { notes_.push_back(name_ + " fails: " + why); }
  std::optional<std::string> failure_of(int rank) override { return name_ + " of " + std::to_string(rank); }
  std::vector<int> missed_ranks() override { return {name_ == "usual" ? 2 : 1}; }
  void abort(const std::string& why) noexcept override { notes_.push_back(name_ + " aborts: " + why); }

 private:
  std::string name_;
  std::vector<std::string>& notes_;
};

struct Ways {
  std::vector<std::string> notes;
  std::shared_ptr<TierSwitch> chosen = std::make_shared<TierSwitch>();
  std::unique_ptr<TieredLink> link;

  Ways() {
    std::vector<TierLink> others;
    others.push_back({Tier::kMulticast, std::make_unique<NotingLink>("multicast", notes)});
    link = std::make_unique<TieredLink>(std::make_unique<NotingLink>("usual", notes), std::move(others), chosen);
    chosen->set(TierPolicy({{1000, Tier::kMulticast}, {2000, Tier::kOneSided}}));
  }

  std::string way_of(CallKind kind, int64_t elements, bool is_for_all) {
    Message message = {.rank = 1, .is_for_all = is_for_all};
    message.label = {.kind = kind, .dtype = DType::kF32, .shape_rank = 1};
    message.label.extents[0] = elements;
    notes.clear();
    link->transfer(std::span(&message, 1), std::span(&message, 1), {});
    return notes.front();
  }
};

TEST(TieredLink, ChoosesByTheSizeOfTheWholeCall) {
  Ways ways;
  EXPECT_EQ(ways.way_of(CallKind::kAllReduce, 249, true), "multicast");
  EXPECT_EQ(ways.way_of(CallKind::kAllGather, 249, true), "multicast");
  EXPECT_EQ(ways.way_of(CallKind::kAllReduce, 250, true), "usual");  // nobody is there for its own tier
  EXPECT_EQ(ways.way_of(CallKind::kAllReduce, 100000, true), "usual");
  EXPECT_EQ(ways.link->name(), "usual");
  EXPECT_EQ(ways.link->size(), 3);
}

TEST(TieredLink, WhatIsNotForAllAndWhatNeighboursSayTakesTheUsualWay) {
  Ways ways;
  EXPECT_EQ(ways.way_of(CallKind::kReduceScatter, 10, false), "usual");
  EXPECT_EQ(ways.way_of(CallKind::kExchange, 10, true), "usual");
  EXPECT_EQ(ways.way_of(CallKind::kBarrier, 0, true), "usual");
}

TEST(TieredLink, MustCarryWhatHasAWayOfItsOwn) {
  Ways ways;
  CallLabel label = {.kind = CallKind::kAllGather, .dtype = DType::kF32, .shape_rank = 1};
  label.extents[0] = 249;
  EXPECT_TRUE(ways.link->must_carry(label));
  label.kind = CallKind::kBroadcast;
  EXPECT_FALSE(ways.link->must_carry(label));
  label.kind = CallKind::kAllGather;
  label.extents[0] = 250;  // nobody is there for its tier
  EXPECT_FALSE(ways.link->must_carry(label));
}

TEST(TieredLink, SaysOnEveryWayThatItLeaves) {
  Ways ways;
  ways.link->announce_leave();
  EXPECT_EQ(ways.notes, (std::vector<std::string>{"multicast leaves", "usual leaves"}));
}

TEST(TieredLink, TellsOnEveryWayThatItFailsAndHearsOnTheUsualOne) {
  Ways ways;
  ways.link->announce_failure("enough");
  EXPECT_EQ(ways.notes, (std::vector<std::string>{"multicast fails: enough", "usual fails: enough"}));
  EXPECT_EQ(ways.link->failure_of(2), "usual of 2");
  EXPECT_EQ(ways.link->missed_ranks(), std::vector<int>{2});
}

TEST(TieredLink, AbortsEveryWay) {
  Ways ways;
  ways.link->abort("enough");
  EXPECT_EQ(ways.notes, (std::vector<std::string>{"multicast aborts: enough", "usual aborts: enough"}));
}

}  // namespace
}  // namespace litespark::dist
