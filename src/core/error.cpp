// SPDX-License-Identifier: Apache-2.0
// The texts of errors. They hold names from files and command lines, so what steers a terminal is escaped here, once
// for all of them.
#include "core/error.h"

#include <sstream>

#include "core/quote.h"

namespace litespark::detail {
namespace {

template <class T>
std::string printed(const T& value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

}  // namespace

std::string text_of(std::string_view text) {
  return std::string(text);
}
std::string text_of(bool value) {
  return printed(value);
}
std::string text_of(char value) {
  return printed(value);
}
std::string text_of(double value) {
  return printed(value);
}
std::string text_of(long long value) {
  return printed(value);
}
std::string text_of(unsigned long long value) {
  return printed(value);
}

std::string message_of(std::string_view where, std::string_view what) {
  // Appended piece by piece: g++ 12 warns falsely (-Wrestrict) about `"literal" + string` at -O3.
  std::string text("[");
  text.append(plain_text(where)).append("] ").append(plain_lines(what));
  return text;
}

std::string message_of(std::string_view where, std::string_view what, std::string_view found, std::string_view expected,
                       std::string_view advice) {
  std::string text = message_of(where, what);
  text.append("; got ").append(plain_text(found)).append(", expected ").append(plain_lines(expected));
  if (!advice.empty()) text.append("; ").append(plain_lines(advice));
  return text;
}

}  // namespace litespark::detail
