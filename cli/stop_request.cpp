// SPDX-License-Identifier: Apache-2.0
#include "stop_request.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "core/error.h"

namespace litespark::cli {
namespace {

/// What a signal finds.
enum class Phase : uint8_t { kUnwatched, kIdle, kTraining, kEnding };

// Signals come on any thread.
std::atomic<bool> request_made = false;
std::atomic<int> interrupts = 0;
std::atomic<Phase> phase = Phase::kUnwatched;
std::atomic<bool> speaks = true;
std::atomic<const char*> line_start = "";
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<Phase>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

const char* name_of(int number) {
  switch (number) {
    case SIGINT: return "SIGINT";
    case SIGUSR1: return "SIGUSR1";
    case SIGUSR2: return "SIGUSR2";
    case SIGHUP: return "SIGHUP";
    default: return "SIGTERM";
  }
}

/// Only calls what a handler may call.
[[noreturn]] void end_at_once(int number, const char* circumstances) {
  if (speaks) {
    for (const char* const part : {line_start.load(), "litespark: stopped by ", name_of(number), circumstances}) {
      if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
    }
  }
  _exit(static_cast<int>(ExitCode::kStopped));
}

void on_signal(int number) {
  const Phase found = phase;
  if (found == Phase::kIdle) end_at_once(number, " while no step was under way: there was nothing to save\n");
  if (number == SIGINT && found == Phase::kUnwatched) {
    std::signal(SIGINT, SIG_DFL);  // the next one ends the process
  } else if (number == SIGINT && ++interrupts > 1) {
    end_at_once(number, found == Phase::kTraining
                            ? " for the second time, at once: steps after the newest checkpoint are lost\n"
                            : " for the second time, after the last step: the run's report may be missing\n");
  }
  request_made = true;
}

int number_of(SaveSignal extra) {
  switch (extra) {
    case SaveSignal::kUsr1: return SIGUSR1;
    case SaveSignal::kUsr2: return SIGUSR2;
    case SaveSignal::kHup: return SIGHUP;
    case SaveSignal::kNone: break;
  }
  return SIGTERM;
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  // Interrupted writes and fsyncs go on by themselves: a stop request must not look like a storage error.
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

void handle_none() {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP}) handle(number, SIG_DFL);
}

}  // namespace

SignalWatch::SignalWatch() {
  request_made = false;
  interrupts = 0;
  speaks = true;
  line_start = isatty(STDERR_FILENO) == 1 ? "\n" : "";  // a progress line may be open
  phase = Phase::kIdle;
  for (const int number : {SIGTERM, SIGINT}) handle(number, on_signal);
}

SignalWatch::~SignalWatch() {
  handle_none();
  phase = Phase::kUnwatched;
}

void SignalWatch::set_speaks(bool is_speaker) {
  speaks = is_speaker;
}

void SignalWatch::add(SaveSignal extra) {
  handle(number_of(extra), on_signal);
}

StopRequest::StopRequest(SaveSignal extra) {
  request_made = false;
  interrupts = 0;
  if (phase != Phase::kUnwatched) phase = Phase::kTraining;
  for (const int number : {SIGTERM, SIGINT, number_of(extra)}) handle(number, on_signal);
}

StopRequest::~StopRequest() {
  if (phase == Phase::kUnwatched) {
    handle_none();
  } else {
    phase = Phase::kEnding;
  }
}

bool StopRequest::is_made() {
  return request_made;
}

}  // namespace litespark::cli
