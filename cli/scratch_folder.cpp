// SPDX-License-Identifier: Apache-2.0
#include "scratch_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "core/error.h"

namespace litespark::cli {
namespace {

constexpr std::array kEndings = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t messages = -1;  ///< the pipe's end that a handler writes to

/// Removing files is nothing that a handler may do: it tells the watching thread.
void on_signal(int number) {
  const int before = errno;
  const auto message = static_cast<unsigned char>(number);
  if (write(messages, &message, 1) != 1) _exit(128 + number);
  errno = before;
}

/// From one handler to another; what is ignored, as by nohup, stays so.
void exchange(void (*from)(int), void (*to)(int)) {
  for (const int number : kEndings) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != from) continue;
    action.sa_handler = to;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }
}

}  // namespace

ScratchFolder::ScratchFolder(const std::filesystem::path& parent, const std::string& purpose)
    : path_(parent / (".litespark-" + purpose + "-" + std::to_string(getpid()))) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) throw IoError(path_.string(), "cannot be made: " + error.message());
  if (pipe2(pipe_.data(), O_CLOEXEC) != 0) return;  // without it the folder outlives a signal, no more
  messages = pipe_[1];
  watcher_ = std::thread([this] { watch(); });
  exchange(SIG_DFL, on_signal);
}

ScratchFolder::~ScratchFolder() {
  if (watcher_.joinable()) {
    exchange(on_signal, SIG_DFL);
    close(pipe_[1]);
    watcher_.join();
    close(pipe_[0]);
  }
  remove();
}

void ScratchFolder::watch() {
  unsigned char number = 0;
  if (read(pipe_[0], &number, 1) != 1) return;
  std::error_code ignored;
  // Again where a file was made meanwhile.
  for (int time = 0; time < 10 && std::filesystem::exists(path_, ignored); ++time) remove();
  std::signal(number, SIG_DFL);
  kill(getpid(), number);
}

void ScratchFolder::remove() const {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace litespark::cli
