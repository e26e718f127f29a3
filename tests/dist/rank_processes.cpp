// SPDX-License-Identifier: Apache-2.0
#include "rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "core/error.h"
#include "dist/tcp.h"

namespace litespark::test {

RankProcesses::RankProcesses(const std::vector<std::vector<std::string>>& commands) {
  for (const std::vector<std::string>& command : commands) {
    std::array<int, 2> ends = {};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    Rank& rank = ranks_.emplace_back();
    const int status = posix_spawnp(&rank.process, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    rank.pipe = ends[0];
    if (status != 0) throw std::runtime_error("cannot start " + command[0]);
  }
}

RankProcesses::~RankProcesses() {
  for (Rank& rank : ranks_) {
    if (rank.process > 0 && !rank.has_ended) {
      kill(rank.process, SIGKILL);
      waitpid(rank.process, nullptr, 0);
    }
    ::close(rank.pipe);
  }
}

void RankProcesses::read_some(Rank& rank) {
  std::array<char, 4096> part;
  while (true) {
    const ssize_t count = read(rank.pipe, part.data(), part.size());
    if (count <= 0) return;
    rank.output.append(part.data(), static_cast<size_t>(count));
  }
}

template <class Condition>
bool RankProcesses::await_output(int number, double seconds, const Condition& is_enough) {
  Rank& rank = ranks_[static_cast<size_t>(number)];
  const auto deadline = dist::in_seconds(seconds);
  while (dist::Clock::now() < deadline) {
    const bool is_at_its_end = has_ended(number);
    for (Rank& any : ranks_) read_some(any);  // a full pipe would hold its writer
    if (is_at_its_end || is_enough(rank.output)) return true;
    pollfd entry = {.fd = rank.pipe, .events = POLLIN, .revents = 0};
    poll(&entry, 1, 50);
  }
  return false;
}

bool RankProcesses::await_lines(int rank, int num_lines, double seconds) {
  return await_output(rank, seconds, [&](const std::string& output) {
    return std::count(output.begin(), output.end(), '\n') >= num_lines;
  });
}

bool RankProcesses::await_text(int rank, const std::string& text, double seconds) {
  return await_output(rank, seconds, [&](const std::string& output) { return output.find(text) != std::string::npos; });
}

void RankProcesses::send_signal(int rank, int number) {
  kill(ranks_[static_cast<size_t>(rank)].process, number);
}

bool RankProcesses::has_ended(int number) {
  Rank& rank = ranks_[static_cast<size_t>(number)];
  int status = 0;
  if (!rank.has_ended && waitpid(rank.process, &status, WNOHANG) == rank.process) {
    rank.has_ended = true;
    rank.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return rank.has_ended;
}

bool RankProcesses::await_ends(double seconds, int except) {
  const auto deadline = dist::in_seconds(seconds);
  while (true) {
    bool have_ended = true;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      read_some(ranks_[static_cast<size_t>(rank)]);  // a full pipe would hold its writer
      if (rank != except && !has_ended(rank)) have_ended = false;
    }
    if (have_ended) break;
    if (dist::Clock::now() > deadline) return false;
    usleep(10000);
  }
  for (Rank& rank : ranks_) read_some(rank);
  return true;
}

bool is_missed(const std::string& text, int rank) {
  const std::string opening = "no word from rank";
  for (size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at + 1)) {
    size_t place = at + opening.size();
    if (text[place] == 's') ++place;
    std::istringstream words(text.substr(place));
    // "0, 1 and 2 before"
    for (std::string word; words >> word;) {
      if (word == "and") continue;
      if (word.find_first_not_of("0123456789,;") != std::string::npos) break;
      if (std::stoi(word) == rank) return true;
    }
  }
  return false;
}

int64_t named_step(const std::string& error) {
  // "[gloo rank 0 of 3] all_reduce (max) of f32 [196608], call 30, step 5: ..."
  for (const char* const kind : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "exchange"}) {
    const size_t call = error.find("] " + std::string(kind));
    const size_t end = error.find(": ", call);
    const size_t number = error.find(", call ", call);
    const size_t step = error.find(", step ", call);
    if (call != std::string::npos && number < step && step < end && end != std::string::npos)
      return std::atoll(error.c_str() + step + std::string(", step ").size());
  }
  return -1;
}

namespace {

/// Of what it printed alone.
std::string fault_of_failed_output(const std::string& output) {
  const int64_t step = named_step(output);
  if (step < 0) return "no call is named";
  int64_t last_step = 0;  // that was done
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("step ")) last_step = std::stoll(line.substr(5));
  }
  if (step != last_step + 1 && step != last_step + 2)
    return "step " + std::to_string(step) + " is named after step " + std::to_string(last_step);
  return output.find("memory: untouched\n") == std::string::npos ? "memory was written to" : "";
}

}  // namespace

std::string fault_of_failed_rank(const RankProcesses& job, int rank) {
  std::string fault;
  if (job.exit_code(rank) != static_cast<int>(ExitCode::kPeerLost)) fault = "another exit code";
  if (fault.empty()) fault = fault_of_failed_output(job.output(rank));
  if (fault.empty()) return "";
  return "rank " + std::to_string(rank) + ": " + fault + ", " + std::to_string(job.exit_code(rank)) + "\n" +
         job.output(rank);
}

std::map<int, int> processes_of(const std::string& output) {
  std::map<int, int> processes;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int rank = 0;
    int process = 0;
    if (words >> rank >> process) processes[rank] = process;
  }
  return processes;
}

int free_port() {
  const dist::Socket socket = dist::listen_on("127.0.0.1", 0);
  return dist::port_of(socket);
}

}  // namespace litespark::test
