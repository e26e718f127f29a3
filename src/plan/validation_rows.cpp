// SPDX-License-Identifier: Apache-2.0
#include "plan/validation_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "core/nearest.h"
#include "plan/row_text.h"
#include "plan/row_words.h"

namespace litespark {
namespace {

struct Record {
  int64_t line = 0;
  std::vector<std::string> cells;
};

/// Cells and records of a whole text; a cell in quotes may hold commas, quotes (doubled) and line ends.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view name) : text_(text), name_(name) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  std::optional<Record> next() {
    while (at_ < text_.size()) {
      Record record{.line = line_, .cells = {}};
      bool more = true;
      while (more) {
        record.cells.push_back(cell());
        more = at_ < text_.size() && text_[at_] == ',';
        if (more) ++at_;
      }
      end_line();
      const bool is_blank = record.cells.size() == 1 && record.cells[0].empty();
      if (!is_blank) return record;
    }
    return std::nullopt;
  }

 private:
  std::string cell() {
    std::string out;
    if (at_ < text_.size() && text_[at_] == '"') {
      quoted(out);
      // What follows a closing quote belongs to the cell, as most readers have it.
    }
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') out += text_[at_++];
    return out;
  }

  void quoted(std::string& out) {
    const int64_t opened = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        out += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        out += text_[++at_];
      } else {
        ++at_;
        return;
      }
    }
    throw DataError(std::string(name_) + " line " + std::to_string(opened), "a quote is opened and never closed");
  }

  void end_line() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
    ++line_;
  }

  std::string_view text_;
  std::string_view name_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct TextColumn {
  const char* name;
  std::string ValidationRow::*member;
};
struct CountColumn {
  const char* name;
  std::optional<int64_t> ValidationRow::*member;
};

constexpr std::array kTextColumns = {TextColumn{"id", &ValidationRow::id},
                                     TextColumn{"source", &ValidationRow::source},
                                     TextColumn{"hardware", &ValidationRow::hardware},
                                     TextColumn{"model", &ValidationRow::model},
                                     TextColumn{"recompute", &ValidationRow::recompute},
                                     TextColumn{"precision", &ValidationRow::precision},
                                     TextColumn{"metric", &ValidationRow::metric},
                                     TextColumn{"unit", &ValidationRow::unit},
                                     TextColumn{"remarks", &ValidationRow::remarks}};
constexpr std::array kCountColumns = {CountColumn{"gpus", &ValidationRow::gpus},
                                      CountColumn{"layers", &ValidationRow::layers},
                                      CountColumn{"hidden", &ValidationRow::hidden},
                                      CountColumn{"heads", &ValidationRow::heads},
                                      CountColumn{"kv_heads", &ValidationRow::kv_heads},
                                      CountColumn{"ffn", &ValidationRow::ffn},
                                      CountColumn{"vocab", &ValidationRow::vocab},
                                      CountColumn{"seqlen", &ValidationRow::seqlen},
                                      CountColumn{"tp", &ValidationRow::tp},
                                      CountColumn{"pp", &ValidationRow::pp},
                                      CountColumn{"dp", &ValidationRow::dp},
                                      CountColumn{"ep", &ValidationRow::ep},
                                      CountColumn{"vpp", &ValidationRow::vpp},
                                      CountColumn{"micro_batch", &ValidationRow::micro_batch},
                                      CountColumn{"global_batch", &ValidationRow::global_batch}};

void note_defect(ValidationRow& row, const std::string& column, const std::string& cell, const std::string& expected) {
  if (!row.defect.empty()) return;
  row.defect =
      "row " + std::to_string(row.line) + ", column " + column + ": got \"" + cell + "\", expected " + expected;
}

void read_count(ValidationRow& row, const CountColumn& column, const std::string& cell) {
  constexpr double kMost = 1e12;
  if (cell.empty()) return;
  const auto value = whole_number_text(cell);
  if (!value || *value < 1 || *value > kMost || *value != std::floor(*value)) {
    note_defect(row, column.name, cell, "a whole number above 0");
    return;
  }
  row.*column.member = static_cast<int64_t>(*value);
}

void read_cell(ValidationRow& row, const std::string& column, const std::string& cell) {
  for (const TextColumn& text : kTextColumns) {
    if (column == text.name) row.*text.member = cell;
  }
  for (const CountColumn& count : kCountColumns) {
    if (column == count.name) read_count(row, count, cell);
  }
  if (column != "value" || cell.empty()) return;
  row.value = whole_number_text(cell);
  if (!row.value) note_defect(row, column, cell, "a number");
}

std::vector<std::string> known_columns() {
  std::vector<std::string> names;
  for (const TextColumn& column : kTextColumns) names.emplace_back(column.name);
  for (const CountColumn& column : kCountColumns) names.emplace_back(column.name);
  names.emplace_back("value");
  return names;
}

std::vector<std::string> read_header(const Record& record, std::string_view name, ValidationFile& file) {
  const std::vector<std::string> known = known_columns();
  std::vector<std::string> columns;
  for (const std::string& cell : record.cells) {
    columns.push_back(lower_text(trimmed(cell)));
    const std::string& column = columns.back();
    if (std::find(known.begin(), known.end(), column) != known.end()) continue;
    const std::string near = nearest_name(column, known);
    file.notes.push_back("column \"" + column + "\" is not known and ignored" +
                         (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  for (const std::string& column : known) {
    if (std::find(columns.begin(), columns.end(), column) != columns.end()) continue;
    if (column == "metric" || column == "value") {
      throw DataError(std::string(name) + " line " + std::to_string(record.line),
                      "the header has no column \"" + column + "\"");
    }
    file.notes.push_back("column \"" + column + "\" is missing; its cells count as unknown");
  }
  return columns;
}

}  // namespace

ValidationFile read_validation_rows(std::string_view text, std::string_view name) {
  CsvReader reader(text, name);
  const auto header = reader.next();
  if (!header) throw DataError(name, "is empty", "no header", "a line of column names");
  ValidationFile file;
  const std::vector<std::string> columns = read_header(*header, name, file);
  while (const auto record = reader.next()) {
    ValidationRow row;
    row.line = record->line;
    if (record->cells.size() > columns.size()) {
      row.defect = "row " + std::to_string(row.line) + ": " + std::to_string(record->cells.size()) + " cells under " +
                   std::to_string(columns.size()) + " columns; is a comma unquoted?";
    }
    for (size_t i = 0; i < std::min(columns.size(), record->cells.size()); ++i) {
      read_cell(row, columns[i], trimmed(record->cells[i]));
    }
    if (const auto word = unknown_word(row)) note_defect(row, word->column, word->cell, word->expected);
    file.rows.push_back(std::move(row));
  }
  return file;
}

}  // namespace litespark
