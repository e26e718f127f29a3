// SPDX-License-Identifier: Apache-2.0
// Measured runs as comma-separated rows under named columns: the file that predictions are held against.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace litespark {

/// One row. Whole numbers that the source does not state are unset.
struct ValidationRow {
  int64_t line = 0;  ///< of the file, from 1
  std::string id;
  std::string source;
  std::string hardware;
  std::string model;
  std::string recompute;
  std::string precision;
  std::string metric;
  std::string unit;
  std::string remarks;
  std::optional<int64_t> gpus, layers, hidden, heads, kv_heads, ffn, vocab, seqlen;
  std::optional<int64_t> tp, pp, dp, ep, vpp, micro_batch, global_batch;
  std::optional<double> value;
  /// "row 12, column tp: got \"many\", expected a whole number above 0": the row cannot be used.
  std::string defect;
};

struct ValidationFile {
  std::vector<ValidationRow> rows;
  std::vector<std::string> notes;  ///< columns that are not known or are missing, cells too many
};

/// Quotes as in RFC 4180, line ends of any kind, a byte order mark; empty lines are skipped. Throws DataError naming
/// the line for an empty file, a header without `metric` and `value`, and a quote that never ends.
ValidationFile read_validation_rows(std::string_view text, std::string_view name);

}  // namespace litespark
