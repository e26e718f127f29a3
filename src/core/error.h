// SPDX-License-Identifier: Apache-2.0
// Every failure that a user can meet is one of these exceptions. The message says where, what was wrong, what was
// found and what was expected; the class fixes the exit code. Only cli/ prints and exits.
#pragma once

#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>

namespace litespark {

/// Process exit codes; stable, documented in DESIGN.md section 5.
enum class ExitCode : int {
  kDone = 0,
  kCheckFailed = 1,
  kConfig = 2,
  kInputFile = 3,
  kStorage = 4,
  kStopped = 5,
  kNumeric = 6,
  kPeerLost = 7,
  kHardware = 8,
  kInternal = 9,
};

namespace detail {
/// What a stream would print of `value`. Not templates over a stream: every other source throws errors, and was
/// compiled a third longer for it.
std::string text_of(std::string_view text);
std::string text_of(bool value);
std::string text_of(char value);
std::string text_of(double value);
std::string text_of(long long value);
std::string text_of(unsigned long long value);
template <std::signed_integral Integer>
std::string text_of(Integer value) {
  return text_of(static_cast<long long>(value));
}
template <std::unsigned_integral Integer>
std::string text_of(Integer value) {
  return text_of(static_cast<unsigned long long>(value));
}
inline std::string text_of(const char* text) {
  return text_of(std::string_view(text));
}

/// "[where] what".
std::string message_of(std::string_view where, std::string_view what);
/// "[where] what; got FOUND, expected EXPECTED; ADVICE", the last part only when there is advice.
std::string message_of(std::string_view where, std::string_view what, std::string_view found, std::string_view expected,
                       std::string_view advice);
}  // namespace detail

/// Base of all errors. Thrown as one of the subclasses below.
class Error : public std::runtime_error {
 public:
  ExitCode exit_code() const { return exit_code_; }

 protected:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), exit_code_(code) {}

 private:
  ExitCode exit_code_;
};

/// Binds an exit code to a class, with the one message form of the project:
/// "[where] what was wrong; got FOUND, expected EXPECTED; ADVICE".
template <ExitCode kCode>
class CodedError : public Error {
 public:
  CodedError(std::string_view where, std::string_view what) : Error(kCode, detail::message_of(where, what)) {}

  template <class Found, class Expected>
  CodedError(std::string_view where, std::string_view what, const Found& found, const Expected& expected,
             std::string_view advice = {})
      : Error(kCode, detail::message_of(where, what, detail::text_of(found), detail::text_of(expected), advice)) {}
};

/// Wrong settings, contradictions, a model kind that is not supported, a run that does not fit.
class ConfigError : public CodedError<ExitCode::kConfig> {
  using CodedError::CodedError;
};
/// Malformed or hostile input files and data.
class DataError : public CodedError<ExitCode::kInputFile> {
  using CodedError::CodedError;
};
/// The operating system refused a read, write, sync or rename; the disk is full.
class IoError : public CodedError<ExitCode::kStorage> {
  using CodedError::CodedError;
};
/// An accelerator or its driver failed.
class DeviceError : public CodedError<ExitCode::kHardware> {
  using CodedError::CodedError;
};
/// A peer rank is lost or does not answer before its deadline.
class CommError : public CodedError<ExitCode::kPeerLost> {
  using CodedError::CodedError;
};
/// NaN, infinity or divergence beyond the run's policy.
class NumericError : public CodedError<ExitCode::kNumeric> {
  using CodedError::CodedError;
};
/// A broken promise inside Litespark: reported as a bug, never caused by input.
class InternalError : public CodedError<ExitCode::kInternal> {
  using CodedError::CodedError;
};

}  // namespace litespark
