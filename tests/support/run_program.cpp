// SPDX-License-Identifier: Apache-2.0
#include "support/run_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

namespace litespark {
namespace {

/// Output goes into nameless files: no pipe can fill up, whatever the program prints.
std::string rewound_text(std::FILE* file) {
  std::rewind(file);
  std::string text;
  std::string buffer(4096, '\0');
  for (size_t count = 1; count > 0;) {
    count = std::fread(buffer.data(), 1, buffer.size(), file);
    text.append(buffer, 0, count);
  }
  std::fclose(file);
  return text;
}

[[noreturn]] void become_litespark(std::vector<char*> arguments, const std::string& folder, int output, int errors) {
  const int nothing = open("/dev/null", O_RDONLY);
  const bool is_ready = dup2(nothing, 0) >= 0 && dup2(output, 1) >= 0 && dup2(errors, 2) >= 0 &&
                        (folder.empty() || chdir(folder.c_str()) == 0);
  if (is_ready) execv(arguments.front(), arguments.data());
  _exit(127);
}

}  // namespace

ProgramResult run_litespark(const std::vector<std::string>& arguments, const std::string& folder) {
  std::vector<std::string> words = {LITESPARK_BINARY_DIR "/cli/litespark"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  std::FILE* output = std::tmpfile();
  std::FILE* errors = std::tmpfile();
  if (output == nullptr || errors == nullptr) throw std::runtime_error("no temporary file");
  const pid_t child = fork();
  if (child == 0) become_litespark(pointers, folder, fileno(output), fileno(errors));
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) throw std::runtime_error("the program did not run");
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .output = rewound_text(output),
          .errors = rewound_text(errors)};
}

}  // namespace litespark
