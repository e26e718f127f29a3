// SPDX-License-Identifier: Apache-2.0
// What the chapters' tests share: a measurement of one run, a tiny model, and a look into a chapter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "anatomy/chapter.h"
#include "anatomy/prepared_model.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark::anatomy {

inline MeasureOptions tiny_measure() {
  return {.seconds = 0, .compute = DType::kF32};
}

inline ModelSizes tiny_sizes() {
  return {.vocab = 64, .hidden = 32, .ffn = 48, .layers = 4, .heads = 4, .kv_heads = 2, .sequences = 2, .length = 32};
}

/// The number of a finding; NaN and a failure when there is none.
inline double number_of(const Chapter& chapter, const std::string& key) {
  const Finding* const finding = chapter.find(key);
  if (finding == nullptr || !finding->ours.number) {
    ADD_FAILURE() << chapter.name << " has no number " << key;
    return std::nan("");
  }
  return *finding->ours.number;
}

/// The table of that key; an empty one and a failure when there is none.
inline const Table& table_of(const Chapter& chapter, const std::string& key) {
  for (const Table& table : chapter.tables) {
    if (table.key == key) return table;
  }
  ADD_FAILURE() << chapter.name << " has no table " << key;
  static const Table kNone;
  return kNone;
}

/// Column `index` of a table, all numbers.
inline std::vector<double> column_of(const Table& table, size_t index) {
  std::vector<double> values;
  for (const auto& row : table.rows) values.push_back(row.at(index).number.value_or(std::nan("")));
  return values;
}

}  // namespace litespark::anatomy
