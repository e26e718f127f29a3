// SPDX-License-Identifier: Apache-2.0
#include "stop_request.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <initializer_list>

#include "core/error.h"

namespace litespark::cli {
namespace {

/// What a signal finds.
enum Phase : std::sig_atomic_t { kUnwatched, kIdle, kTraining, kEnding };

volatile std::sig_atomic_t request_made = 0;
volatile std::sig_atomic_t interrupts = 0;
volatile std::sig_atomic_t phase = kUnwatched;
volatile std::sig_atomic_t speaks = 1;

const char* name_of(int number) {
  switch (number) {
    case SIGINT: return "SIGINT";
    case SIGUSR1: return "SIGUSR1";
    case SIGUSR2: return "SIGUSR2";
    case SIGHUP: return "SIGHUP";
    default: return "SIGTERM";
  }
}

/// Only what a handler may do.
[[noreturn]] void end_at_once(int number, const char* what) {
  // Behind a progress line that is open.
  const char* const start = isatty(STDERR_FILENO) != 0 ? "\nlitespark: stopped by " : "litespark: stopped by ";
  for (const char* const part : {start, name_of(number), what}) {
    if (speaks != 0 && write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  _exit(static_cast<int>(ExitCode::kStopped));
}

void on_signal(int number) {
  if (phase == kIdle) end_at_once(number, " while no step was under way: there was nothing to save\n");
  if (number == SIGINT) interrupts = interrupts + 1;
  if (number == SIGINT && phase == kUnwatched) std::signal(SIGINT, SIG_DFL);
  if (interrupts > 1)
    end_at_once(number, " for the second time, at once: steps after the newest checkpoint are lost\n");
  request_made = 1;
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
  for (const int number : std::array{SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP}) handle(number, SIG_DFL);
}

}  // namespace

StopWatch::StopWatch() {
  request_made = 0;
  interrupts = 0;
  speaks = 1;
  phase = kIdle;
  for (const int number : {SIGTERM, SIGINT}) handle(number, on_signal);
}

StopWatch::~StopWatch() {
  handle_none();
  phase = kUnwatched;
}

void StopWatch::set_speaks(bool is_speaker) {
  speaks = is_speaker ? 1 : 0;
}

void StopWatch::add(SaveSignal extra) {
  handle(number_of(extra), on_signal);
}

StopRequest::StopRequest(SaveSignal extra) {
  request_made = 0;
  interrupts = 0;
  if (phase != kUnwatched) phase = kTraining;
  for (const int number : {SIGTERM, SIGINT, number_of(extra)}) handle(number, on_signal);
}

StopRequest::~StopRequest() {
  if (phase == kUnwatched) {
    handle_none();
  } else {
    phase = kEnding;
  }
}

bool StopRequest::is_made() {
  return request_made != 0;
}

}  // namespace litespark::cli
