// SPDX-License-Identifier: Apache-2.0
#include "train/run_manifest.h"

#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "io/file.h"
#include "io/json_file.h"

namespace litespark {
namespace {

constexpr int64_t kFormat = 1;

nlohmann::json json_of(const RunStart& start) {
  return {{"time", start.time},         {"from_step", start.from_step}, {"command", start.command},
          {"versions", start.versions}, {"hardware", start.hardware},   {"hashes", start.hashes},
          {"tuning", start.tuning}};
}

[[noreturn]] void refuse(const std::filesystem::path& path, const char* found) {
  throw DataError(path.string(), "is no run's manifest", found,
                  "{\"format\": " + std::to_string(kFormat) + ", \"starts\": [...]}", "move it away to go on");
}

nlohmann::json read_starts(const std::filesystem::path& path) {
  if (!is_present(path)) return nlohmann::json::array();
  const JsonLimits limits;
  const std::string text = read_text_file(path, limits.max_bytes);
  nlohmann::json manifest;
  try {
    manifest = parse_json(text, path.string(), limits);
  } catch (const DataError&) {
    refuse(path, "something that is no JSON");
  }
  const bool is_ours = manifest.is_object() && manifest.contains("starts") && manifest["starts"].is_array() &&
                       manifest.value("format", nlohmann::json()) == kFormat;
  if (!is_ours) refuse(path, "another content");
  return manifest["starts"];
}

}  // namespace

void append_run_start(const std::filesystem::path& path, const RunStart& start) {
  nlohmann::json starts = read_starts(path);
  starts.push_back(json_of(start));
  while (std::cmp_greater(starts.size(), kMostStarts)) starts.erase(1);
  const nlohmann::json manifest = {{"format", kFormat}, {"starts", std::move(starts)}};
  // A command line may hold any bytes; JSON may not.
  write_text_file(path, manifest.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::string utc_time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  gmtime_r(&now, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace litespark
