// SPDX-License-Identifier: Apache-2.0
// Feed-forward widths as a machine was measured to like them, and what that says about one width: which neighbour is
// fastest, and what padding to it costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/fields.h"

namespace litespark {

/// What `litespark anatomy width` stores: one file, one hidden size.
struct WidthTable {
  std::string device;
  std::string compute = "bf16";
  int64_t rows = 0;             ///< tokens of a product
  int64_t hidden = 0;           ///< C
  std::vector<double> widths;   ///< F of one device, rising
  std::vector<double> seconds;  ///< of gate, up and down, forward: [rows, C] x [C, 2 F] and [rows, F] x [F, C]

  void visit(Fields& fields);
  /// Throws ConfigError for lists that do not belong together; `file` is where they were read, if they were.
  void validate(std::string_view file = {}) const;
  /// FLOPs of one row of the file.
  double flops(double width) const { return 6.0 * static_cast<double>(rows) * static_cast<double>(hidden) * width; }
};

struct WidthChoice {
  int64_t width = 0;
  double seconds = 0;
  double flops_per_second = 0;         ///< of all of its columns
  double useful_flops_per_second = 0;  ///< when only the asked width's columns are wanted and the others are padding
  double slower = 0;                   ///< than the asked width, as a share
};

struct WidthAdvice {
  int64_t asked = 0;
  std::vector<WidthChoice> choices;  ///< of the file, narrower ones included; the asked one is among them
  WidthChoice best;                  ///< not narrower than what was asked, with the highest useful rate
};

/// nullopt when the table has no row for `width`.
std::optional<WidthAdvice> advise_width(const WidthTable& table, int64_t width);

/// For people: the widths near the asked one, and what to take.
std::string width_text(const WidthTable& table, const WidthAdvice& advice);
/// "take 2816: ..." or "keep 2752: ...".
std::string width_verdict(const WidthAdvice& advice);

}  // namespace litespark
