// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_state.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/hex_text.h"
#include "io/json_fields.h"
#include "io/json_file.h"

namespace litespark {
namespace {

constexpr int kFormatVersion = 1;

/// A double as its 16 hexadecimal digits: exact, NaN and infinity included.
std::string exact_text(double value) {
  return hex_text(std::bit_cast<uint64_t>(value));
}

double exact_double(const std::string& text, const std::string& where) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw DataError(where, "must be 16 hexadecimal digits", text, "a double's bits");
  }
  return std::bit_cast<double>(uint64_t{std::stoull(text, nullptr, 16)});
}

std::map<std::string, std::string> get_texts(const JsonFields& fields, const char* name) {
  const nlohmann::json* const object = fields.find_object(name);
  if (object == nullptr) throw DataError(fields.label(name), "is missing");
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : object->items()) {
    if (!value.is_string()) throw DataError(fields.label(name), "must hold texts only", value.type_name(), "string");
    texts[key] = value.get<std::string>();
  }
  return texts;
}

CheckpointState parse_fields(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where);
  if (fields.get_int("format_version") != kFormatVersion) {
    throw DataError(fields.label("format_version"), "is not one that this version reads",
                    fields.get_int("format_version"), kFormatVersion);
  }
  CheckpointState state;
  state.progress.steps_done = fields.get_count("steps_done");
  state.progress.tokens_done = fields.get_count("tokens_done");
  state.progress.skipped_in_a_row = fields.get_count("skipped_in_a_row");
  state.progress.optimizer_steps = fields.get_count("optimizer_steps");
  state.progress.skipped_steps = fields.get_count("skipped_steps");
  const nlohmann::json* const norms = fields.find("recent_norms");
  if (norms == nullptr || !norms->is_array()) throw DataError(fields.label("recent_norms"), "must be a list");
  for (const auto& norm : *norms) {
    if (!norm.is_string()) throw DataError(fields.label("recent_norms"), "must hold texts");
    state.progress.recent_norms.push_back(exact_double(norm.get<std::string>(), fields.label("recent_norms")));
  }
  state.totals.joules = exact_double(fields.get_string("joules"), fields.label("joules"));
  state.totals.metered_seconds = exact_double(fields.get_string("metered_seconds"), fields.label("metered_seconds"));
  state.totals.unmetered_seconds =
      exact_double(fields.get_string("unmetered_seconds"), fields.label("unmetered_seconds"));
  state.totals.train_seconds = exact_double(fields.get_string("train_seconds"), fields.label("train_seconds"));
  state.identity = get_texts(fields, "identity");
  if (!state.identity.contains("seed")) {
    throw DataError(fields.label("identity.seed"), "is missing: the random streams cannot be continued");
  }
  state.tuning = get_texts(fields, "tuning");
  state.folder_dtype = parse_dtype(fields.get_string("folder_dtype"));
  return state;
}

}  // namespace

std::string checkpoint_state_json(const CheckpointState& state) {
  nlohmann::json norms = nlohmann::json::array();
  for (const double norm : state.progress.recent_norms) norms.push_back(exact_text(norm));
  const nlohmann::json json = {{"format_version", kFormatVersion},
                               {"steps_done", state.progress.steps_done},
                               {"tokens_done", state.progress.tokens_done},
                               {"skipped_in_a_row", state.progress.skipped_in_a_row},
                               {"optimizer_steps", state.progress.optimizer_steps},
                               {"skipped_steps", state.progress.skipped_steps},
                               {"recent_norms", norms},
                               {"joules", exact_text(state.totals.joules)},
                               {"metered_seconds", exact_text(state.totals.metered_seconds)},
                               {"unmetered_seconds", exact_text(state.totals.unmetered_seconds)},
                               {"train_seconds", exact_text(state.totals.train_seconds)},
                               {"identity", state.identity},
                               {"tuning", state.tuning},
                               {"folder_dtype", std::string(dtype_name(state.folder_dtype))}};
  return json.dump(1) + "\n";
}

CheckpointState parse_checkpoint_state(const std::string& text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  if (!json.is_object()) throw DataError(where, "must hold an object");
  try {
    return parse_fields(json, where);
  } catch (const ConfigError& error) {
    throw DataError(where, error.what());  // a field of a file, not of the user's configuration
  }
}

void require_same_run(const RunIdentity& stored, const RunIdentity& current, const std::string& where) {
  std::set<std::string> names;
  for (const auto& [name, text] : stored) names.insert(name);
  for (const auto& [name, text] : current) names.insert(name);
  std::string differences;
  for (const std::string& name : names) {
    const auto before = stored.find(name);
    const auto now = current.find(name);
    const std::string before_text = before == stored.end() ? "(absent)" : before->second;
    const std::string now_text = now == current.end() ? "(absent)" : now->second;
    if (before_text != now_text)
      differences += "\n  " + name + ": checkpoint " + before_text + ", this run " + now_text;
  }
  if (differences.empty()) return;
  throw ConfigError("checkpoint.resume", where + " belongs to another run:" + differences +
                                             "\n  give back the old settings, or start anew with another `out`");
}

}  // namespace litespark
