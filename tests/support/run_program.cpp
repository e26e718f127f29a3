// SPDX-License-Identifier: Apache-2.0
#include "support/run_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace litespark {
namespace {

std::string rewound_text(std::FILE* file) {
  std::rewind(file);
  std::string text;
  std::string buffer(4096, '\0');
  for (size_t count = 1; count > 0;) {
    count = std::fread(buffer.data(), 1, buffer.size(), file);
    text.append(buffer, 0, count);
  }
  return text;
}

struct Streams {
  int input;
  int output;
  int errors;
};

[[noreturn]] void become_litespark(std::vector<char*> arguments, const std::string& folder, const Streams& streams) {
  const bool is_ready = dup2(streams.input, 0) >= 0 && dup2(streams.output, 1) >= 0 && dup2(streams.errors, 2) >= 0 &&
                        (folder.empty() || chdir(folder.c_str()) == 0);
  if (is_ready) execvp(arguments.front(), arguments.data());
  _exit(127);
}

}  // namespace

/// Output goes into nameless files: no pipe can fill up, whatever the program prints.
RunningLitespark::RunningLitespark(const std::vector<std::string>& arguments, const std::string& folder,
                                   const std::string& input, const std::vector<std::string>& launcher,
                                   const std::string& program)
    : input_(std::tmpfile()), output_(std::tmpfile()), errors_(std::tmpfile()) {
  if (!input_ || !output_ || !errors_) throw std::runtime_error("no temporary file");
  std::fwrite(input.data(), 1, input.size(), input_);
  std::rewind(input_);
  std::vector<std::string> words = launcher;
  words.push_back(std::string(LITESPARK_BINARY_DIR "/") + program);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  child_ = fork();
  if (child_ == 0) become_litespark(pointers, folder, {fileno(input_), fileno(output_), fileno(errors_)});
  if (child_ < 0) throw std::runtime_error("the program did not start");
}

RunningLitespark::~RunningLitespark() {
  if (child_ > 0) {
    send(SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  std::fclose(input_);
  std::fclose(output_);
  std::fclose(errors_);
}

std::vector<pid_t> RunningLitespark::children() const {
  const std::string process = std::to_string(child_);
  std::ifstream file("/proc/" + process + "/task/" + process + "/children");
  return {std::istream_iterator<pid_t>(file), std::istream_iterator<pid_t>()};
}

void RunningLitespark::send(int signal) const {
  kill(child_, signal);
}

ProgramResult RunningLitespark::wait() {
  int status = 0;
  if (waitpid(child_, &status, 0) != child_) throw std::runtime_error("the program is gone");
  child_ = -1;
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .output = rewound_text(output_),
          .errors = rewound_text(errors_)};
}

ProgramResult run_litespark(const std::vector<std::string>& arguments, const std::string& folder,
                            const std::string& input, const std::vector<std::string>& launcher) {
  return RunningLitespark(arguments, folder, input, launcher).wait();
}

}  // namespace litespark
