// SPDX-License-Identifier: Apache-2.0
#include "out_of_memory.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <new>

#include "core/error.h"

namespace litespark::cli {
namespace {

volatile std::sig_atomic_t has_failed = 0;

void refuse() {
  has_failed = 1;
  throw std::bad_alloc();
}

/// Only calls that a signal handler may make.
void on_abort(int signal) {
  if (has_failed == 0) {
    std::signal(signal, SIG_DFL);
    return;  // abort() raises it once more
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
