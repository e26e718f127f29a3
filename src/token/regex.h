// SPDX-License-Identifier: Apache-2.0
// A compiled pattern: PCRE2 with JIT, bounded in work. Finds matches as the library's find_iter does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "token/tokenizer_spec.h"

namespace litespark::token {

struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

class Regex {
 public:
  /// Compiles a literal or a pattern of Oniguruma's syntax. Throws DataError naming the pattern if it does not compile,
  /// is empty or longer than 64 KiB.
  explicit Regex(const PatternSpec& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  /// Calls `found` for each match, left to right; an empty match right after the previous match is skipped. `text` is
  /// valid UTF-8. Throws DataError if the pattern backtracks beyond its limits: the work is bounded by about
  /// 1 second and 2 seconds a mebibyte. Safe to call from several threads.
  void for_each_match(std::string_view text, const std::function<void(TextRange)>& found) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace litespark::token
