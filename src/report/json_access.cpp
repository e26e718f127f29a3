// SPDX-License-Identifier: Apache-2.0
#include "report/json_access.h"

#include "core/error.h"
#include "io/file.h"
#include "io/json_file.h"

namespace litespark::report {
namespace {

/// Two million steps; a page of more says no more.
constexpr int64_t kLargestFileBytes = int64_t{1} << 30;

void each_line(const std::filesystem::path& path,
               const std::function<void(std::string_view line, const std::string& where)>& visit) {
  if (!is_present(path)) return;
  const std::string text = read_text_file(path, kLargestFileBytes);
  int64_t number = 0;
  for (size_t start = 0, end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    visit(std::string_view(text).substr(start, end - start), path.string() + ":" + std::to_string(++number));
  }
}

void visit_line(std::string_view line, const std::string& where, const std::function<void(const JsonObject&)>& visit) {
  const nlohmann::json value = parse_json(line, where);
  visit(JsonObject(value, where));
}

}  // namespace

JsonObject::JsonObject(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) throw DataError(where_, "is of the wrong type", object.type_name(), "an object");
}

const nlohmann::json* JsonObject::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonObject::wrong(const char* key, const nlohmann::json& value, const char* expected) const {
  throw DataError(where_ + ": " + key, "is of the wrong type", value.type_name(), expected);
}

std::optional<double> JsonObject::real(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) wrong(key, *value, "a number");
  return value->get<double>();
}

std::optional<int64_t> JsonObject::integer(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) wrong(key, *value, "an integer");
  return value->get<int64_t>();
}

std::optional<std::string> JsonObject::text(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong(key, *value, "a string");
  return value->get<std::string>();
}

std::optional<bool> JsonObject::boolean(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) wrong(key, *value, "true or false");
  return value->get<bool>();
}

void JsonObject::each(const char* key, const std::function<void(const JsonObject&)>& visit) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) wrong(key, *value, "an array");
  for (size_t i = 0; i < value->size(); ++i) {
    visit(JsonObject((*value)[i], where_ + ": " + key + "[" + std::to_string(i) + "]"));
  }
}

void JsonObject::each_number(const char* key, const std::function<void(const std::string&, double)>& visit) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return;
  if (!value->is_object()) wrong(key, *value, "an object of numbers");
  for (const auto& [name, number] : value->items()) {
    if (!number.is_number()) wrong(key, number, "numbers");
    visit(name, number.get<double>());
  }
}

void each_json_line(const std::filesystem::path& path, const std::function<void(const JsonObject&)>& visit) {
  each_line(path, [&](std::string_view line, const std::string& where) { visit_line(line, where, visit); });
}

int64_t each_sound_json_line(const std::filesystem::path& path, const std::function<void(const JsonObject&)>& visit) {
  int64_t num_broken = 0;
  each_line(path, [&](std::string_view line, const std::string& where) {
    try {
      visit_line(line, where, visit);
    } catch (const DataError&) {
      ++num_broken;
    }
  });
  return num_broken;
}

}  // namespace litespark::report
