// SPDX-License-Identifier: Apache-2.0
#include "io/tuning_file.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "io/file.h"
#include "io/json_file.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kQuick = "quick";
constexpr const char* kThorough = "thorough";

const char* environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

TuningChoices choices_in(const nlohmann::json& object, const std::string& where) {
  if (!object.is_object()) throw DataError(where, "has the wrong type", object.type_name(), "an object");
  TuningChoices choices;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) throw DataError(where + "." + key, "has the wrong type", value.type_name(), "a string");
    choices[key] = value.get<std::string>();
  }
  return choices;
}

}  // namespace

fs::path default_tuning_file() {
  const fs::path rest = fs::path("litespark") / "tuning.json";
  if (const char* const cache = environment("XDG_CACHE_HOME")) return fs::path(cache) / rest;
  if (const char* const home = environment("HOME")) return fs::path(home) / ".cache" / rest;
  return {};
}

TuningBySearch read_tuning_file(const fs::path& path) {
  TuningBySearch known;
  if (!is_present(path)) return known;
  const nlohmann::json json = read_json_file(path);
  if (!json.is_object()) throw DataError(path.string(), "has the wrong type", json.type_name(), "an object");
  for (const auto& [search, choices] : json.items()) {
    if (search != kQuick && search != kThorough) {
      throw DataError(path.string(), "unknown search", search, "quick or thorough");
    }
    known[search] = choices_in(choices, path.string() + ": " + search);
  }
  return known;
}

TuningChoices usable_choices(const TuningBySearch& known, const std::string& search) {
  TuningChoices usable;
  const auto add = [&](const char* name) {
    const auto found = known.find(name);
    if (found != known.end()) usable.insert(found->second.begin(), found->second.end());
  };
  add(kThorough);
  if (search == kQuick) add(kQuick);
  return usable;
}

void add_to_tuning_file(const fs::path& path, const std::string& search, const TuningChoices& choices) {
  TuningBySearch known = read_tuning_file(path);
  bool is_new = false;
  for (const auto& [key, choice] : choices) {
    is_new |= known[search].insert_or_assign(key, choice).second;
  }
  if (!is_new) return;
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) throw IoError(path.parent_path().string(), "cannot be made", error.message(), "a folder");
  write_text_file(path, nlohmann::json(known).dump(1) + "\n");
}

}  // namespace litespark
