// SPDX-License-Identifier: Apache-2.0
#include "plan_validation.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "core/error.h"
#include "io/file.h"
#include "plan/validation_report.h"

namespace litespark::cli {
namespace {

ValidationFile rows_of(const std::string& path) {
  constexpr int64_t kLargest = int64_t{64} << 20;
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status)) {
    throw ConfigError(path, "is not a file", status ? status.message() : "nothing to read", "rows of measured runs");
  }
  return read_validation_rows(read_text_file(path, kLargest), path);
}

/// What could be predicted is printed by then.
void refuse_defects(const ValidationFile& file, const std::string& path) {
  const auto is_bad = [](const ValidationRow& row) { return !row.defect.empty(); };
  const auto first = std::find_if(file.rows.begin(), file.rows.end(), is_bad);
  if (first == file.rows.end()) return;
  throw DataError(path, "rows that cannot be used are left out; the first: " + first->defect,
                  std::count_if(file.rows.begin(), file.rows.end(), is_bad), "0");
}

}  // namespace

void print_validation(const ValidationRequest& request) {
  const ValidationFile file = rows_of(request.rows);
  ValidationFile other;
  if (!request.fit_from.empty()) other = rows_of(request.fit_from);
  const Validation validation = validate(file, request.fit, request.fit_from.empty() ? nullptr : &other);
  std::cout << (request.json ? validation_json(validation) : validation_text(validation)) << std::flush;
  refuse_defects(file, request.rows);
  if (!request.fit_from.empty()) refuse_defects(other, request.fit_from);
}

}  // namespace litespark::cli
