// SPDX-License-Identifier: Apache-2.0
// Typed access to parsed JSON, with the path of the value in every message. Include from .cpp files only.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace litespark::token {

/// A JSON value and where it stands in its file.
class JsonValue {
 public:
  JsonValue(simdjson::dom::element element, std::string path) : element_(element), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool is_null() const { return element_.is_null(); }
  bool is_object() const { return element_.is_object(); }
  bool is_string() const { return element_.is_string(); }

  /// Member `key`; nothing if it is absent or null.
  std::optional<JsonValue> find(std::string_view key) const {
    simdjson::dom::element member;
    if (element_[key].get(member) != simdjson::SUCCESS || member.is_null()) return std::nullopt;
    return JsonValue(member, path_ + "." + std::string(key));
  }
  JsonValue at(std::string_view key) const {
    if (std::optional<JsonValue> member = find(key)) return *std::move(member);
    throw DataError(path_, "lacks a member", "nothing", fmt::format("\"{}\"", key));
  }

  std::string_view string() const { return get<std::string_view>("a string"); }
  bool boolean() const { return get<bool>("true or false"); }
  int64_t integer() const { return get<int64_t>("an integer"); }
  /// An integer that is an id; the vocabulary checks its upper end.
  int32_t id() const {
    const int64_t value = integer();
    if (value < 0 || value > INT32_MAX) throw DataError(path_, "is no token id", value, "0 to 2^31 - 1");
    return static_cast<int32_t>(value);
  }

  std::string string_or(std::string_view key, std::string_view fallback) const {
    const std::optional<JsonValue> member = find(key);
    return std::string(member ? member->string() : fallback);
  }
  bool boolean_or(std::string_view key, bool fallback) const {
    const std::optional<JsonValue> member = find(key);
    return member ? member->boolean() : fallback;
  }

  /// Calls visit(JsonValue) for each element of an array.
  template <class Visit>
  void for_each_element(Visit&& visit) const {
    size_t index = 0;
    for (const simdjson::dom::element element : get<simdjson::dom::array>("an array")) {
      visit(JsonValue(element, fmt::format("{}[{}]", path_, index++)));
    }
  }
  /// Calls visit(key, JsonValue) for each member of an object, duplicates included.
  template <class Visit>
  void for_each_member(Visit&& visit) const {
    for (const auto& [key, value] : get<simdjson::dom::object>("an object")) {
      visit(key, JsonValue(value, fmt::format("{}.{}", path_, key)));
    }
  }

  simdjson::dom::element element() const { return element_; }

  template <class T>
  T get(std::string_view expected) const {
    T value;
    const simdjson::error_code error = element_.get<T>().get(value);
    if (error != simdjson::SUCCESS) throw DataError(path_, "has a wrong type", type_name(), expected);
    return value;
  }

 private:
  std::string_view type_name() const {
    switch (element_.type()) {
      case simdjson::dom::element_type::ARRAY: return "an array";
      case simdjson::dom::element_type::OBJECT: return "an object";
      case simdjson::dom::element_type::STRING: return "a string";
      case simdjson::dom::element_type::BOOL: return "a boolean";
      case simdjson::dom::element_type::NULL_VALUE: return "null";
      default: return "a number";
    }
  }

  simdjson::dom::element element_;
  std::string path_;
};

}  // namespace litespark::token
