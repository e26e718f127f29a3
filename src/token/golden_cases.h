// SPDX-License-Identifier: Apache-2.0
// Holds a tokenizer against a folder of cases that the tokenizers library computed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace litespark::token {

/// Outcome of one comparison; ids and texts must be equal, so `error` counts cases that differ and `limit` is 0.
struct CaseCheck {
  std::string name;  ///< "ids", or "ids[5]" for the first cases that differ
  double error = 0;
  double limit = 0;
  bool pass = false;
};

/// Whether `folder` holds tokenizer cases.
bool has_tokenizer_cases(const std::filesystem::path& folder);

/// Encodes and decodes every row of `folder`/cases.json ("text", "ids", "ids_without_special", "decoded",
/// "decoded_with_special") with `folder`/tokenizer.json. Throws DataError for malformed rows, IoError.
std::vector<CaseCheck> check_tokenizer_cases(const std::filesystem::path& folder);

}  // namespace litespark::token
