// SPDX-License-Identifier: Apache-2.0
#include "stop_request.h"

#include <array>
#include <csignal>
#include <initializer_list>

namespace litespark::cli {
namespace {

volatile std::sig_atomic_t request_made = 0;

/// Only what a handler may do: the second SIGINT meets the default action and ends the process.
void on_signal(int number) {
  if (number == SIGINT) std::signal(SIGINT, SIG_DFL);
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

constexpr std::array kNumbers = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP};

}  // namespace

StopRequest::StopRequest(SaveSignal extra) {
  request_made = 0;
  for (const int number : {SIGTERM, SIGINT, number_of(extra)}) handle(number, on_signal);
}

StopRequest::~StopRequest() {
  for (const int number : kNumbers) handle(number, SIG_DFL);
}

bool StopRequest::is_made() {
  return request_made != 0;
}

}  // namespace litespark::cli
