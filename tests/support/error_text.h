// SPDX-License-Identifier: Apache-2.0
// The message of the error that a call must throw, so that a test can look for what a user would look for.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace litespark {

/// Fails the test and returns "" when `call` throws nothing or another type.
template <class ExpectedError, class Call>
std::string error_text(Call&& call) {
  try {
    call();
  } catch (const ExpectedError& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// For EXPECT_TRUE: whether `text` has `part`, showing both when it has not.
inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" has no \"" << part << "\"";
}

}  // namespace litespark
