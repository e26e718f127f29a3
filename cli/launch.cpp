// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "core/hex_text.h"
#include "dist/launch_environment.h"
#include "dist/secret.h"
#include "dist/tcp.h"

namespace litespark::cli {
namespace {

/// The failure that made the others fail may be reported a moment after theirs.
constexpr double kCauseSeconds = 1;

/// Each rank is a process with threads of its own. A mistyped number must not fill the machine with them.
constexpr int kMostRanksAThread = 4;
constexpr int kFewRanks = 64;  ///< always allowed, to try a layout on a small machine

struct Stream {
  dist::Socket pipe;
  std::string rest;  ///< a line whose end has not come
  bool is_error = false;
};

struct Rank {
  pid_t process = -1;
  std::array<Stream, 2> streams;
  std::optional<ExitCode> end;
};

std::pair<dist::Socket, dist::Socket> make_pipe() {
  std::array<int, 2> ends = {};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw ConfigError("launch", std::string("the system gives no pipe: ") + std::strerror(errno));
  return {dist::Socket(ends[0]), dist::Socket(ends[1])};
}

ExitCode code_of(int status) {
  if (WIFEXITED(status)) return static_cast<ExitCode>(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  return number == SIGBUS || number == SIGILL ? ExitCode::kHardware : ExitCode::kPeerLost;
}

class Launch {
 public:
  explicit Launch(const LaunchRequest& request)
      : ranks_(static_cast<size_t>(request.num_ranks)), devices_(request.devices) {
    sigemptyset(&signals_);
    sigemptyset(&passed_);
    for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGCHLD}) sigaddset(&signals_, number);
    sigprocmask(SIG_BLOCK, &signals_, &before_);
    arrivals_ = dist::Socket(signalfd(-1, &signals_, SFD_NONBLOCK | SFD_CLOEXEC));
    const dist::Secret secret = dist::Secret::random();
    const dist::Socket listener = dist::listen_on("127.0.0.1", 0);
    dist::Environment environment = dist::process_environment();
    environment["LITESPARK_SIZE"] = environment["LITESPARK_LOCAL_SIZE"] = std::to_string(request.num_ranks);
    environment["LITESPARK_ATTEMPT"] = std::to_string(request.attempt);
    environment["LITESPARK_JOB"] = hex_text(std::as_bytes(std::span(dist::Secret::random().bytes())));
    environment["LITESPARK_HOST"] = "127.0.0.1";
    environment["LITESPARK_PORT"] = std::to_string(dist::port_of(listener));
    environment[kParentVariable] = std::to_string(getpid());
    try {
      for (int rank = 0; rank < request.num_ranks; ++rank)
        start(rank, request.arguments, environment, secret, listener);
    } catch (...) {
      pass_on(SIGKILL);
      sigprocmask(SIG_SETMASK, &before_, nullptr);
      throw;
    }
  }
  ~Launch() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  LaunchEnd wait() {
    std::optional<dist::Clock::time_point> failed_at;
    bool was_killed = false;
    while (!all_have_ended()) {
      wait_for_something();
      take_signals();
      collect_ends();
      if (!failed_at && first_failure()) failed_at = dist::Clock::now();
      if (!failed_at) continue;
      const std::chrono::duration<double> since = dist::Clock::now() - *failed_at;
      if (!was_told_ && since.count() > kCauseSeconds) {
        was_told_ = true;
        pass_on(SIGTERM);
        pass_on(SIGCONT);  // a stopped process does not hear SIGTERM
      }
      if (!was_killed && since.count() > kCauseSeconds + kLaunchGraceSeconds) {
        was_killed = true;
        pass_on(SIGKILL);
      }
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) drain(rank);
    std::cout.flush();
    take_signals();  // one that comes when all have ended must not meet the handlers of before
    if (unheard_ != 0) {
      std::cerr << "litespark: stopped by SIG" << sigabbrev_np(unheard_)
                << " while no step was under way: there was nothing to save" << std::endl;
    }
    return {.code = code(), .lost = lost_, .was_asked = was_asked_};
  }

 private:
  void start(int number, const std::vector<std::string>& arguments, dist::Environment environment,
             const dist::Secret& secret, const dist::Socket& listener) {
    auto [secret_out, secret_in] = make_pipe();
    if (write(secret_in.descriptor(), secret.bytes().data(), secret.bytes().size()) !=
        static_cast<ssize_t>(secret.bytes().size()))
      throw ConfigError("launch", "the secret does not fit into a pipe");
    secret_in.close();
    // Numbers that a child's descriptors get; nothing else of this process is inherited.
    constexpr int kSecretDescriptor = 3;
    constexpr int kListenerDescriptor = 4;
    environment["LITESPARK_RANK"] = environment["LITESPARK_LOCAL_RANK"] = std::to_string(number);
    if (!devices_.empty()) environment["CUDA_VISIBLE_DEVICES"] = devices_.at(static_cast<size_t>(number));
    environment[kSecretVariable] = std::to_string(kSecretDescriptor);
    if (number == 0) environment[kListenerVariable] = std::to_string(kListenerDescriptor);

    Rank& rank = ranks_[static_cast<size_t>(number)];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    std::array<dist::Socket, 2> inner;
    // First out of the way of the numbers below, so that no move lands on a descriptor still needed.
    std::array<dist::Socket, 2> moved = {dist::Socket(fcntl(secret_out.descriptor(), F_DUPFD_CLOEXEC, 10)),
                                         dist::Socket(fcntl(listener.descriptor(), F_DUPFD_CLOEXEC, 10))};
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      auto [outer, write_end] = make_pipe();
      const auto index = static_cast<size_t>(stream - STDOUT_FILENO);
      rank.streams[index] = {.pipe = std::move(outer), .rest = {}, .is_error = stream == STDERR_FILENO};
      inner[index] = dist::Socket(fcntl(write_end.descriptor(), F_DUPFD_CLOEXEC, 10));
      posix_spawn_file_actions_adddup2(&actions, inner[index].descriptor(), stream);
      fcntl(rank.streams[index].pipe.descriptor(), F_SETFL, O_NONBLOCK);
    }
    posix_spawn_file_actions_adddup2(&actions, moved[0].descriptor(), kSecretDescriptor);
    if (number == 0) posix_spawn_file_actions_adddup2(&actions, moved[1].descriptor(), kListenerDescriptor);
    const int status = spawn(rank.process, arguments, environment, actions);
    posix_spawn_file_actions_destroy(&actions);
    if (status != 0) {
      rank.process = -1;
      throw ConfigError("launch", "rank " + std::to_string(number) + " cannot be started: " + std::strerror(status));
    }
  }

  int spawn(pid_t& process, const std::vector<std::string>& arguments, const dist::Environment& environment,
            const posix_spawn_file_actions_t& actions) const {
    std::vector<std::string> settings;
    for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
    std::vector<char*> variables;
    for (std::string& setting : settings) variables.push_back(setting.data());
    variables.push_back(nullptr);
    std::vector<std::string> words = {"litespark"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    // A group of its own: Ctrl-C on a terminal reaches the launcher alone, which passes it on once.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &before_);
    const int status =
        posix_spawn(&process, "/proc/self/exe", &actions, &attributes, pointers.data(), variables.data());
    posix_spawnattr_destroy(&attributes);
    return status;
  }

  bool all_have_ended() const {
    for (const Rank& rank : ranks_) {
      if (!rank.end) return false;
    }
    return true;
  }

  void wait_for_something() {
    std::vector<pollfd> entries = {{.fd = arrivals_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Rank& rank : ranks_) {
      for (const Stream& stream : rank.streams)
        entries.push_back({.fd = stream.pipe.descriptor(), .events = POLLIN, .revents = 0});
    }
    poll(entries.data(), entries.size(), 100);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) drain(rank);
    std::cout.flush();
  }

  /// Whole lines under the rank's number; at a stream's end what is left is a line too.
  void drain(size_t number) {
    for (Stream& stream : ranks_[number].streams) {
      if (!stream.pipe.is_open()) continue;
      std::array<char, 4096> part;
      ssize_t count = 0;
      while ((count = read(stream.pipe.descriptor(), part.data(), part.size())) > 0)
        stream.rest.append(part.data(), static_cast<size_t>(count));
      if (count == 0) {
        stream.pipe.close();
        if (!stream.rest.empty() && stream.rest.back() != '\n') stream.rest += '\n';
      }
      size_t end = 0;
      while ((end = stream.rest.find('\n')) != std::string::npos) {
        (stream.is_error ? std::cerr : std::cout) << number << ": " << stream.rest.substr(0, end + 1);
        stream.rest.erase(0, end + 1);
      }
    }
  }

  void take_signals() {
    signalfd_siginfo arrived = {};
    while (read(arrivals_.descriptor(), &arrived, sizeof(arrived)) == sizeof(arrived)) {
      if (arrived.ssi_signo == SIGCHLD) continue;
      was_asked_ = true;
      sigaddset(&passed_, static_cast<int>(arrived.ssi_signo));
      pass_on(static_cast<int>(arrived.ssi_signo));
    }
  }

  void pass_on(int number) const {
    for (const Rank& rank : ranks_) {
      if (rank.process > 0 && !rank.end) kill(rank.process, number);
    }
  }

  void collect_ends() {
    for (size_t number = 0; number < ranks_.size(); ++number) {
      Rank& rank = ranks_[number];
      int status = 0;
      if (rank.end || waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
      rank.end = code_of(status);
      if (was_stopped_by(status)) {
        if (number == 0) unheard_ = WTERMSIG(status);
        rank.end = ExitCode::kStopped;
        was_stopped_ = true;
        continue;
      }
      const bool was_cut = WIFSIGNALED(status) && !(was_told_ && WTERMSIG(status) == SIGTERM);
      if (was_cut || *rank.end == ExitCode::kHardware) lost_.push_back(static_cast<int>(number));
      if (*rank.end == ExitCode::kStopped) {
        was_stopped_ = true;  // as told; others may still be saving
      } else if (*rank.end != ExitCode::kDone) {
        failures_.push_back(*rank.end);
      }
    }
  }

  /// A rank that was told to stop before it listened, as everybody is for a moment after their start.
  bool was_stopped_by(int status) const {
    if (!WIFSIGNALED(status)) return false;
    const int number = WTERMSIG(status);
    return (number == SIGINT || number == SIGTERM) && sigismember(&passed_, number) == 1;
  }

  ExitCode code() const {
    const std::optional<ExitCode> failure = first_failure();
    // Ranks that are told to stop go one after another, and those that are slower lose them. One that was killed on the
    // way may have been saving.
    const bool is_stop = was_stopped_ && was_asked_ && lost_.empty() && failure == ExitCode::kPeerLost;
    if (failure && !is_stop) return *failure;
    return was_stopped_ ? ExitCode::kStopped : ExitCode::kDone;
  }

  /// In the order of their ends; a rank that only lost another one did not begin it.
  std::optional<ExitCode> first_failure() const {
    for (const ExitCode code : failures_) {
      if (code != ExitCode::kPeerLost) return code;
    }
    return failures_.empty() ? std::nullopt : std::optional(failures_.front());
  }

  std::vector<Rank> ranks_;
  std::vector<std::string> devices_;
  std::vector<ExitCode> failures_;
  std::vector<int> lost_;
  bool was_stopped_ = false;
  bool was_told_ = false;   ///< to end, since another one failed
  bool was_asked_ = false;  ///< by whoever signalled the launcher
  int unheard_ = 0;         ///< the signal that ended the first rank before it could say so for all; 0: none did
  sigset_t signals_ = {};
  sigset_t passed_ = {};  ///< on to the ranks
  sigset_t before_ = {};
  dist::Socket arrivals_;
};

}  // namespace

LaunchEnd launch(const LaunchRequest& request) {
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  const int most = std::max(kFewRanks, kMostRanksAThread * threads);
  if (request.num_ranks > most) {
    throw ConfigError("launch", "more ranks than this host can start", request.num_ranks,
                      "at most " + std::to_string(most) + ", for " + std::to_string(threads) + " hardware threads",
                      "ask for fewer, or start several hosts with torchrun or srun");
  }
  return Launch(request).wait();
}

std::vector<std::string> devices_for(int num_ranks) {
  const dist::Environment environment = dist::process_environment();
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  const bool is_open = visible == environment.end() || visible->second.empty();
  std::vector<std::string> devices;
  for (size_t begin = 0; devices.size() < static_cast<size_t>(num_ranks);) {
    if (is_open) {
      devices.push_back(std::to_string(devices.size()));
      continue;
    }
    if (begin > visible->second.size())
      throw ConfigError("CUDA_VISIBLE_DEVICES", "names too few devices", visible->second, "one for each rank");
    const size_t end = std::min(visible->second.find(',', begin), visible->second.size());
    devices.push_back(visible->second.substr(begin, end - begin));
    begin = end + 1;
  }
  return devices;
}

ExitCode launch_ranks(int num_ranks, const std::vector<std::string>& arguments, bool has_gpus) {
  return launch({.num_ranks = num_ranks,
                 .arguments = arguments,
                 .devices = has_gpus ? devices_for(num_ranks) : std::vector<std::string>{}})
      .code;
}

void follow_launcher() {
  const char* parent = std::getenv(kParentVariable);
  if (parent == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // Between its start and the line above the launcher may have gone.
  if (std::to_string(getppid()) != parent) raise(SIGTERM);
}

}  // namespace litespark::cli
