// SPDX-License-Identifier: Apache-2.0
// Rows of measurements, printed as they come and kept for a JSON file.
#pragma once

#include <utility>
#include <vector>

#include "core/error.h"
#include "op_timer.h"

namespace litespark::bench {

struct Report {
  std::vector<Row> rows;
  void add(Row row) {
    print_row(row);
    rows.push_back(std::move(row));
  }
};

/// Times `op` after its preparation; a failure becomes a row that says so.
template <class Op>
void measure(Report& report, Row row, Backend& backend, const OpTimer& timer, const Op& op, bool prepare) {
  try {
    if (prepare) backend.prepare(op);
    timer.time(row, [&] { backend.run(op); });
  } catch (const Error& error) {
    row.error = error.what();
  }
  report.add(std::move(row));
}

}  // namespace litespark::bench
