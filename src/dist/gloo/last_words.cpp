// SPDX-License-Identifier: Apache-2.0
#include "dist/gloo/last_words.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace litespark::dist {
namespace {

constexpr size_t kFarewellBytes = kLongestFarewell + 2;
constexpr char kFarewellMark = '\1';  ///< its last byte: it has come whole
constexpr auto kFarewellPatience = std::chrono::milliseconds(200);
constexpr auto kHearPeriod = std::chrono::milliseconds(2);
constexpr auto kLeavePatience = std::chrono::seconds(2);
constexpr char kLeaveWord = 1;

}  // namespace

LastWords::LastWords(std::shared_ptr<gloo::rendezvous::Context> mesh) : mesh_(std::move(mesh)) {
  const auto size = static_cast<size_t>(mesh_->size);
  farewells_.assign(size, std::string(kFarewellBytes, '\0'));
  farewell_buffers_.resize(size);
  leaves_.resize(size);
  leave_buffers_.resize(size);
  for (const int rank : others()) {
    const auto at = static_cast<size_t>(rank);
    farewell_buffers_[at] = buffer(farewells_[at].data(), kFarewellBytes);
    farewell_buffers_[at]->recv(rank, kFarewellSlot);
    leave_buffers_[at] = buffer(&leaves_[at], 1);
    leave_buffers_[at]->recv(rank, kLeaveSlot);
  }
}

std::vector<int> LastWords::others() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh_->size; ++rank) {
    if (rank != mesh_->rank) ranks.push_back(rank);
  }
  return ranks;
}

void LastWords::say_farewell(const std::string& why) {
  farewell_ = why.substr(0, kLongestFarewell);
  farewell_.resize(kFarewellBytes, '\0');
  farewell_.back() = kFarewellMark;
  for (const int rank : others()) {
    try {
      farewell_words_.push_back(buffer(farewell_.data(), kFarewellBytes));
      farewell_words_.back()->send(rank, kFarewellSlot);
    } catch (const std::exception&) {
      // That one is gone.
      farewell_words_.pop_back();
    }
  }
}

/// Closing takes back what the kernel has not sent yet. Whoever waits for this rank hears the farewell, says his own
/// and closes.
void LastWords::await_hearing(std::vector<int> waiting) {
  const Deadline deadline = std::chrono::steady_clock::now() + kFarewellPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    std::erase_if(waiting, [&](int rank) { return has_said_farewell(rank) || break_of(rank); });
    if (waiting.empty()) break;
    std::this_thread::sleep_for(kHearPeriod);
  }
  for (const GlooBuffer& word : farewell_words_) {
    try {
      word->waitSend(left_until(deadline));
    } catch (const std::exception&) {
      continue;
    }
  }
}

bool LastWords::has_said_farewell(int rank) {
  return std::atomic_ref(farewells_[static_cast<size_t>(rank)].back()).load() != '\0';
}

std::optional<std::string> LastWords::farewell_of(int rank) {
  if (rank == mesh_->rank || !has_said_farewell(rank)) return std::nullopt;
  const std::string& text = farewells_[static_cast<size_t>(rank)];
  const std::lock_guard lock(farewell_mutex_);
  GlooBuffer& farewell = farewell_buffers_[static_cast<size_t>(rank)];
  // Only one that is there is waited for: a timeout of Gloo's would break all connections.
  try {
    if (farewell != nullptr && !farewell->waitRecv(kFarewellPatience)) return std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  farewell.reset();  // it has come whole
  return text.substr(0, text.find('\0'));
}

std::optional<std::string> LastWords::break_of(int rank) {
  const std::lock_guard lock(farewell_mutex_);
  const GlooBuffer& farewell = farewell_buffers_[static_cast<size_t>(rank)];
  if (farewell == nullptr) return "it gave up";
  try {
    farewell->abortWaitRecv();  // so that it only throws or returns, at once
    farewell->waitRecv(kLongest);
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  }
}

void LastWords::announce_leave() noexcept {
  if (leave_deadline_) return;
  leave_deadline_ = std::chrono::steady_clock::now() + kLeavePatience;
  try {
    for (const int rank : others()) {
      leave_words_.push_back(buffer(&kLeaveWord, 1));
      leave_words_.back()->send(rank, kLeaveSlot);
    }
  } catch (const std::exception&) {
    // The others are asked all the same.
  }
}

/// Who says that he leaves has all that was sent to him; who is gone already had it too, or never wanted it.
void LastWords::await_leaves() noexcept {
  if (!leave_deadline_) return;
  for (const int rank : others()) {
    try {
      leave_buffers_[static_cast<size_t>(rank)]->waitRecv(left_until(*leave_deadline_));
    } catch (const std::exception&) {
      continue;
    }
  }
}

bool LastWords::has_left(int rank) {
  return std::atomic_ref(leaves_[static_cast<size_t>(rank)]).load() != '\0';
}

}  // namespace litespark::dist
