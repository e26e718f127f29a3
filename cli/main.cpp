// SPDX-License-Identifier: Apache-2.0
// Finds the command, lets it run, turns the one exception into a message and an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>

#include "dispatch.h"
#include "out_of_memory.h"

namespace {

/// A closed standard stream would give its number to the next file that is opened, and messages would go into that.
/// What stands in refuses writes as the closed one did.
void fill_closed_streams() {
  for (const int descriptor : std::array{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using litespark::ExitCode;
  // Through C's streams an interrupted write would count as a failed one.
  std::ios::sync_with_stdio(false);
  fill_closed_streams();
  // A reader that goes away and a file that reaches its limit are failed writes, which the code reports.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  litespark::cli::explain_aborts_without_memory();
  const auto fail = [](ExitCode code, const char* kind, const char* message) {
    std::cout.flush();
    std::cerr << "litespark: " << kind << message << "\n";
    return static_cast<int>(code);
  };
  try {
    return static_cast<int>(litespark::cli::dispatch({argv + std::min(argc, 1), argv + argc}));
  } catch (const litespark::InternalError& error) {
    return fail(error.exit_code(), "a bug, please report it: ", error.what());
  } catch (const litespark::Error& error) {
    return fail(error.exit_code(), "", error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(ExitCode::kStorage, "", ("[" + error.path1().string() + "] " + error.code().message()).c_str());
  } catch (const std::system_error& error) {
    return fail(ExitCode::kConfig, "[host] refuses a thread or another resource; lower device.threads: ", error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::kConfig, "", litespark::cli::kOutOfMemoryText);
  } catch (const std::exception& error) {
    return fail(ExitCode::kInternal, "a bug, please report it: ", error.what());
  }
}
