// SPDX-License-Identifier: Apache-2.0
// The strict half of JSON parsing: a SAX base that turns every event into a DataError unless a subclass accepts it.
// Included by .cpp files only (nlohmann/json.hpp is slow to compile).
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/quote.h"
#include "io/json_file.h"

namespace litespark {

/// Checks numbers; subclasses override what their format allows.
class StrictJsonSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictJsonSax(std::string_view where) : where_(where) {}

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  virtual bool integer(int64_t) { return refuse("an integer"); }
  virtual bool real(double) { return refuse("a number with a fraction"); }
  bool string(std::string&) override { return refuse("a string"); }
  bool start_object(size_t) override { return refuse("an object"); }
  bool key(std::string&) override { return refuse("an object key"); }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return refuse("an array"); }
  bool end_array() override { return true; }
  bool binary(nlohmann::json::binary_t&) final { return refuse("binary data"); }

  bool number_integer(int64_t value) final { return integer(value); }
  bool number_unsigned(uint64_t value) final {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return refuse("an integer past 63 bits");
    return integer(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string& written) final {
    // The lexer turns integers that fit no integer type into floating point.
    if (written.find_first_of(".eE") == std::string::npos) return refuse("an integer past 63 bits");
    if (!std::isfinite(value) || std::abs(value) > kMaxJsonMagnitude) return refuse("a number past 1e300");
    return real(value);
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) final {
    throw DataError(where_, "is not valid JSON at byte " + std::to_string(position) + ": " + quote(error.what(), 300));
  }

  [[noreturn]] bool refuse(std::string_view found) const {
    refuse(found, "holds a JSON value that is not allowed", "what the format describes");
  }
  template <class Found, class Expected>
  [[noreturn]] void refuse(const Found& found, std::string_view what, const Expected& expected) const {
    throw DataError(where_, what, found, expected);
  }

 protected:
  std::string where_;
};

}  // namespace litespark
