// SPDX-License-Identifier: Apache-2.0
// Finds the command, lets it run, turns the one exception into a message and an exit code.
#include <exception>
#include <iostream>
#include <new>

#include "dispatch.h"

int main(int argc, char** argv) {
  using litespark::ExitCode;
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
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::kConfig, "", "[memory] the host has no more; got less than asked for, expected more");
  } catch (const std::exception& error) {
    return fail(ExitCode::kInternal, "a bug, please report it: ", error.what());
  }
}
