// SPDX-License-Identifier: Apache-2.0
#include "out_of_memory.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <new>

#include "core/error.h"

namespace litespark::cli {
namespace {

std::atomic<bool> has_failed = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler reads it");

void refuse() {
  has_failed = true;
  throw std::bad_alloc();
}

/// Only calls that a signal handler may make.
void on_abort(int signal) {
  if (!has_failed) {
    std::signal(signal, SIG_DFL);
    (void)std::raise(signal);  // it is blocked in here, and comes behind the return
    return;
  }
  for (const char* part : std::array{"litespark: ", kOutOfMemoryText, "\n"}) {
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  }
  _exit(static_cast<int>(ExitCode::kConfig));
}

}  // namespace

void explain_aborts_without_memory() {
  std::set_new_handler(refuse);
  std::signal(SIGABRT, on_abort);
}

}  // namespace litespark::cli
