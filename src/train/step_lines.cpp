// SPDX-License-Identifier: Apache-2.0
#include "train/step_lines.h"

#include <algorithm>
#include <charconv>

#include "io/file.h"

namespace litespark {
namespace {

/// A year of steps a second is 10 GiB of lines; a log beyond this is not one of ours.
constexpr int64_t kLargestLogBytes = int64_t{16} << 30;

}  // namespace

std::optional<int64_t> integer_in_line(std::string_view line, std::string_view key) {
  const std::string opening = "\"" + std::string(key) + "\": ";
  const size_t place = line.find(opening);
  if (place == std::string_view::npos || !line.ends_with('}')) return std::nullopt;
  int64_t number = 0;
  const char* first = line.data() + place + opening.size();
  if (std::from_chars(first, line.data() + line.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

std::string lines_up_to_step(const std::filesystem::path& path, int64_t last_step) {
  std::string kept;
  if (!is_present(path)) return kept;
  const std::string text = read_text_file(path, kLargestLogBytes);
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = std::string_view(text).substr(start, end - start);
    const auto step = integer_in_line(line, "step");
    if (step && *step >= 0 && *step <= last_step) kept.append(line).append("\n");
    start = end + 1;
  }
  return kept;
}

}  // namespace litespark
