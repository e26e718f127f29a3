// SPDX-License-Identifier: Apache-2.0
// Real processes as ranks: started by a test, read line by line, struck with signals, and never left behind.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace litespark::test {

class RankProcesses {
 public:
  /// Starts one process for each command. Throws std::runtime_error.
  explicit RankProcesses(const std::vector<std::vector<std::string>>& commands);
  /// Kills what still runs.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Reads the process's output until `num_lines` lines have come in all, or its end. False when `seconds` pass before.
  bool await_lines(int rank, int num_lines, double seconds);
  /// Likewise until it has printed `text`.
  bool await_text(int rank, const std::string& text, double seconds);
  void send_signal(int rank, int number);
  /// Waits for the end of all but `except`, at most `seconds`. False when one of them still runs.
  bool await_ends(double seconds, int except = -1);
  bool has_ended(int rank);

  const std::string& output(int rank) const { return ranks_[static_cast<size_t>(rank)].output; }
  /// Exit code, or 128 + signal. After its end.
  int exit_code(int rank) const { return ranks_[static_cast<size_t>(rank)].exit_code; }

 private:
  struct Rank {
    int process = -1;
    int pipe = -1;
    std::string output;
    int exit_code = -1;
    bool has_ended = false;
  };
  void read_some(Rank& rank);
  template <class Condition>
  bool await_output(int number, double seconds, const Condition& is_enough);

  std::vector<Rank> ranks_;
};

/// Whether `text` says that there was "no word from" this rank, alone or among others. A sum has two halves: who has
/// all of the first waits in the second for the lost rank, and for those that still miss it in the first.
bool is_missed(const std::string& text, int rank);

/// What is wrong with how a rank of endless_calls_under_way ended, in words; "" for nothing. It must have exit code 7,
/// an error that names the call and a step that was under way, and memory that nobody wrote to after the error.
std::string fault_of_failed_rank(const RankProcesses& job, int rank);
/// The step of the first call that a rank's error names, which must name the call's kind, number and step; else -1.
int64_t named_step(const std::string& error);

/// Process ids by rank, from lines that say nothing but "RANK PROCESS".
std::map<int, int> processes_of(const std::string& output);

/// A port of 127.0.0.1 that was free a moment ago.
int free_port();

}  // namespace litespark::test
