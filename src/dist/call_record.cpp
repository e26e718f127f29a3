// SPDX-License-Identifier: Apache-2.0
#include "dist/call_record.h"

#include <algorithm>
#include <iterator>

namespace litespark::dist {
namespace {

/// The two clocks are read one after the other, and a process may lose its core in between: the closest of several
/// readings counts.
std::chrono::duration<double> steady_to_calendar() {
  using Steady = std::chrono::steady_clock;
  auto closest = Steady::duration::max();
  std::chrono::duration<double> difference{};
  for (int reading = 0; reading < 20; ++reading) {
    const auto before = Steady::now().time_since_epoch();
    const auto calendar = std::chrono::system_clock::now().time_since_epoch();
    const auto after = Steady::now().time_since_epoch();
    if (after - before >= closest) continue;
    closest = after - before;
    difference = calendar - (before + (after - before) / 2);
  }
  return difference;
}

std::string text_of(const CommCall& call) {
  if (call.kind != CallKind::kExchange) return label_of(call).what();
  const auto half = [&](const char* way, int rank, const Tensor& tensor) {
    const std::string named = label_of_half(call, tensor).what();  // "exchange of f32 [10]"
    return std::string(way) + std::to_string(rank) + named.substr(named.find(' '));
  };
  std::string text = "exchange";
  if (call.sent.has_value()) text += half(" to rank ", call.destination, call.sent);
  if (call.received.has_value()) {
    text += (call.sent.has_value() ? "," : "") + half(" from rank ", call.source, call.received);
  }
  return text;
}

}  // namespace

CallRecord::CallRecord(size_t capacity)
    : steady_to_calendar_(steady_to_calendar()), ring_(std::max<size_t>(capacity, 1)) {}

void CallRecord::add(const CommCall& call, const CallPlace& place, size_t lane) {
  const std::lock_guard lock(mutex_);
  ring_[static_cast<size_t>(call.number) % ring_.size()] = {
      .number = call.number,
      .step = call.step,
      .what = text_of(call),
      .group = place.group,
      .bytes = std::max({call.data.bytes(), call.sent.bytes(), call.received.bytes()}),
      .lane = lane,
      .issued = now()};
}

std::vector<RecordedCall> CallRecord::calls() const {
  const std::lock_guard lock(mutex_);
  std::vector<RecordedCall> calls;
  std::copy_if(ring_.begin(), ring_.end(), std::back_inserter(calls),
               [](const RecordedCall& call) { return call.number > 0; });
  std::sort(calls.begin(), calls.end(),
            [](const RecordedCall& a, const RecordedCall& b) { return a.number < b.number; });
  return calls;
}

void CallRecord::mark(int64_t number, double RecordedCall::*moment) {
  const std::lock_guard lock(mutex_);
  RecordedCall& call = ring_[static_cast<size_t>(number) % ring_.size()];
  if (call.number == number) call.*moment = now();
}

double CallRecord::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch() + steady_to_calendar_)
      .count();
}

}  // namespace litespark::dist
