// SPDX-License-Identifier: Apache-2.0
// The report: one HTML page on one run that needs nothing but itself. It says "not measured" where nothing was, and
// never draws a line for it.
#pragma once

#include <filesystem>
#include <string>

#include "report/run_folder.h"

namespace litespark::report {

/// The whole page. Same input, same bytes.
std::string report_page(const RunFolder& run);

/// Reads the folder of a run and writes report.html into it; returns its path. Throws what read_run_folder throws.
std::filesystem::path write_report(const std::filesystem::path& folder);

}  // namespace litespark::report
