// SPDX-License-Identifier: Apache-2.0
// Typed access to the fields of a JSON object; what is missing or of the wrong type is a ConfigError with its name.
// Included by .cpp files only (nlohmann/json.hpp is slow to compile).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"

namespace litespark {

/// `get_*` without a default: the field is required. A field that is null counts as absent.
class JsonFields {
 public:
  /// `object` outlives this; `where` is the file's name, `prefix` goes before field names ("rope_scaling.").
  JsonFields(const nlohmann::json& object, std::string_view where, std::string prefix = {})
      : object_(object), where_(where), prefix_(std::move(prefix)) {}

  /// Null when the field is absent or null.
  const nlohmann::json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool contains(const char* name) const { return object_.contains(name); }
  std::string label(const char* name) const { return where_ + ": " + prefix_ + name; }

  int64_t get_int(const char* name, std::optional<int64_t> fallback = {}) const {
    const nlohmann::json* const value = find(name);
    if (value == nullptr) return or_missing(name, fallback);
    if (!value->is_number_integer()) wrong_type(name, *value, "an integer");
    return value->get<int64_t>();
  }
  /// As get_int, of what cannot be negative.
  int64_t get_count(const char* name) const {
    const int64_t value = get_int(name);
    if (value < 0) throw DataError(label(name), "must not be negative", value, "0 or more");
    return value;
  }
  double get_real(const char* name, std::optional<double> fallback = {}) const {
    const nlohmann::json* const value = find(name);
    if (value == nullptr) return or_missing(name, fallback);
    if (!value->is_number()) wrong_type(name, *value, "a number");
    return value->get<double>();
  }
  bool get_bool(const char* name, std::optional<bool> fallback = {}) const {
    const nlohmann::json* const value = find(name);
    if (value == nullptr) return or_missing(name, fallback);
    if (!value->is_boolean()) wrong_type(name, *value, "true or false");
    return value->get<bool>();
  }
  std::string get_string(const char* name, std::optional<std::string> fallback = {}) const {
    const nlohmann::json* const value = find(name);
    if (value == nullptr) return or_missing(name, std::move(fallback));
    if (!value->is_string()) wrong_type(name, *value, "a string");
    return value->get<std::string>();
  }
  /// Null when absent.
  const nlohmann::json* find_object(const char* name) const {
    const nlohmann::json* const value = find(name);
    if (value != nullptr && !value->is_object()) wrong_type(name, *value, "an object");
    return value;
  }

  [[noreturn]] void wrong_type(const char* name, const nlohmann::json& value, std::string_view expected) const {
    throw ConfigError(label(name), "has the wrong type", value.type_name(), expected);
  }

 private:
  template <class T>
  T or_missing(const char* name, std::optional<T> fallback) const {
    if (!fallback) throw ConfigError(label(name), "is missing");
    return std::move(*fallback);
  }

  const nlohmann::json& object_;
  std::string where_;
  std::string prefix_;
};

}  // namespace litespark
