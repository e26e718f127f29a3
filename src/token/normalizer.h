// SPDX-License-Identifier: Apache-2.0
// The chain of normalizers: text in, text out, with the one alignment fact that a later component asks for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "token/tokenizer_spec.h"

namespace litespark::token {

class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerSpec>& specs);
  ~Normalizer();
  Normalizer(Normalizer&&) noexcept;
  Normalizer& operator=(Normalizer&&) noexcept;

  bool is_identity() const { return steps_.empty(); }

  /// Normalizes valid UTF-8 `text`; the result is `text` itself or lies in `buffer`. `keeps_start` becomes false if the
  /// result's first character no longer comes from the first character of `text`.
  std::string_view apply(std::string_view text, std::string* buffer, bool* keeps_start) const;

 private:
  struct Step;
  std::vector<std::unique_ptr<Step>> steps_;
};

}  // namespace litespark::token
