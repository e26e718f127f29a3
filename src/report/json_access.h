// SPDX-License-Identifier: Apache-2.0
// Fields of JSON objects in files of a run folder: absent and null are one, a wrong type is a DataError that names
// place and key. Included by .cpp files only (nlohmann/json.hpp is slow to compile).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace litespark::report {

class JsonObject {
 public:
  /// `object` outlives this. DataError when it is not an object.
  JsonObject(const nlohmann::json& object, std::string where);

  std::optional<double> real(const char* key) const;
  std::optional<int64_t> integer(const char* key) const;
  std::optional<std::string> text(const char* key) const;
  std::optional<bool> boolean(const char* key) const;
  /// Null when absent.
  const nlohmann::json* find(const char* key) const;
  /// The members of an array of objects; none when absent.
  void each(const char* key, const std::function<void(const JsonObject&)>& visit) const;
  /// The members of an object of numbers, in the file's order of names; none when absent.
  void each_number(const char* key, const std::function<void(const std::string&, double)>& visit) const;

  const std::string& where() const { return where_; }
  [[noreturn]] void wrong(const char* key, const nlohmann::json& value, const char* expected) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
};

/// Each whole line of a file of JSON lines; nothing when the file is absent; a last line without a line feed is left
/// out. DataError naming the line when it is no JSON object, and what `visit` throws.
void each_json_line(const std::filesystem::path& path, const std::function<void(const JsonObject&)>& visit);

/// The same for a log that only grows, where a crash may leave a torn line in the middle: such lines, and those of
/// which `visit` throws DataError, are left out. Returns how many.
int64_t each_sound_json_line(const std::filesystem::path& path, const std::function<void(const JsonObject&)>& visit);

}  // namespace litespark::report
