// SPDX-License-Identifier: Apache-2.0
#include "train/energy_log.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "core/error.h"
#include "core/json_text.h"
#include "io/file.h"

namespace litespark {
namespace {

constexpr int64_t kLargestLogBytes = int64_t{1} << 30;
constexpr std::string_view kCheck = ", \"check\": ";

std::string check_of(std::string_view text) {
  return json_string(hash_bytes(std::as_bytes(std::span(text.data(), text.size()))));
}

void append_number_or_null(std::string& out, const std::optional<double>& value) {
  if (value) {
    append_json_number(out, *value);
  } else {
    out += "null";
  }
}

std::optional<double> number_in(std::string_view line, std::string_view key) {
  const std::string opening = "\"" + std::string(key) + "\": ";
  const size_t place = line.find(opening);
  if (place == std::string_view::npos) return std::nullopt;
  double number = 0;
  const char* first = line.data() + place + opening.size();
  if (std::from_chars(first, line.data() + line.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

EnergyMethod method_in(std::string_view line) {
  for (const EnergyMethod method : {EnergyMethod::kCounter, EnergyMethod::kIntegrated, EnergyMethod::kEstimated}) {
    if (line.find("\"method\": \"" + std::string(method_name(method)) + "\"") != std::string_view::npos) return method;
  }
  return EnergyMethod::kUnavailable;
}

/// One device's part of a stretch as a line tells it; nullopt when it is torn or changed.
std::optional<EnergyAccount> read_record(std::string_view line) {
  const size_t end = line.rfind(kCheck);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view content = line.substr(0, end);
  if (line.substr(end + kCheck.size()) != check_of(content) + "}") return std::nullopt;
  EnergyAccount record{.joules = number_in(content, "joules").value_or(0),
                       .metered_seconds = 0,
                       .unmetered_seconds = 0,
                       .method = method_in(content)};
  if (number_in(content, "record") == 0.0) {  // the other devices' lines say the same seconds again
    record.metered_seconds = number_in(content, "seconds").value_or(0);
    record.unmetered_seconds = number_in(content, "unmetered_seconds").value_or(0);
  }
  return record;
}

}  // namespace

std::string energy_lines(int64_t step, const EnergyAccount& stretch) {
  std::string lines;
  append_energy_lines(lines, step, stretch);
  return lines;
}

void append_energy_lines(std::string& out, int64_t step, const EnergyAccount& stretch) {
  int64_t record = 0;
  const auto add = [&](std::string_view device, const std::optional<double>& joules, EnergyMethod method) {
    const size_t start = out.size();
    out += "{\"step\": ";
    append_json_number(out, step);
    out += ", \"record\": ";
    append_json_number(out, record++);
    out += ", \"seconds\": ";
    append_json_number(out, stretch.metered_seconds);
    out += ", \"unmetered_seconds\": ";
    append_json_number(out, stretch.unmetered_seconds);
    out += ", \"joules\": ";
    append_number_or_null(out, joules);
    out += ", \"watts\": ";
    append_number_or_null(
        out, joules && stretch.is_known() ? std::optional(*joules / stretch.metered_seconds) : std::nullopt);
    out.append(", \"method\": \"").append(method_name(method)).append("\", \"device\": ");
    append_json_string(out, device);
    const size_t content = out.size() - start;
    out.append(kCheck).append("\"");
    append_hash(out, std::as_bytes(std::span(out.data() + start, content)));
    out += "\"}\n";
  };
  if (stretch.is_known()) {
    for (const auto& [device, share] : stretch.devices) add(device, share.joules, share.method);
  } else {
    add("all", std::nullopt, EnergyMethod::kUnavailable);
  }
}

EnergyLog::EnergyLog(const std::filesystem::path& path) : file_(path) {
  const std::string text = read_text_file(path, kLargestLogBytes);
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    if (const auto record = read_record(std::string_view(text).substr(start, end - start))) {
      recorded_.joules += record->joules;
      recorded_.metered_seconds += record->metered_seconds;
      recorded_.unmetered_seconds += record->unmetered_seconds;
      if (record->method != EnergyMethod::kUnavailable) recorded_.method = std::max(recorded_.method, record->method);
    }
    start = end + 1;
  }
  if (!text.empty() && text.back() != '\n') file_.append("\n");  // a torn record ends here
}

void EnergyLog::add(int64_t step, const EnergyAccount& stretch) {
  lines_.clear();
  append_energy_lines(lines_, step, stretch);
  file_.append(lines_);
}

}  // namespace litespark
