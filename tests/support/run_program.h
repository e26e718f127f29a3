// SPDX-License-Identifier: Apache-2.0
// Runs the real litespark binary and looks at it from outside, as a shell would.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace litespark {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal when it was killed
  std::string output;
  std::string errors;
};

/// The program, started; arguments go in unquoted. Killed when nobody waited for it.
class RunningLitespark {
 public:
  /// `folder` is where it runs; empty: here. `input` is its standard input. `launcher` is a program with its arguments
  /// that starts litespark, for example strace; when it is missing, the exit code is 127. `program` is a path in the
  /// build folder.
  explicit RunningLitespark(const std::vector<std::string>& arguments, const std::string& folder = {},
                            const std::string& input = {}, const std::vector<std::string>& launcher = {},
                            const std::string& program = "cli/litespark");
  ~RunningLitespark();
  RunningLitespark(const RunningLitespark&) = delete;
  RunningLitespark& operator=(const RunningLitespark&) = delete;

  void send(int signal) const;
  pid_t process() const { return child_; }
  /// Processes that it started and that are still there.
  std::vector<pid_t> children() const;
  ProgramResult wait();

 private:
  std::FILE* input_;
  std::FILE* output_;
  std::FILE* errors_;
  pid_t child_ = -1;
};

/// Starts it and waits.
ProgramResult run_litespark(const std::vector<std::string>& arguments, const std::string& folder = {},
                            const std::string& input = {}, const std::vector<std::string>& launcher = {});

}  // namespace litespark
