// SPDX-License-Identifier: Apache-2.0
// The chain of decoders: token texts in, one text out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "token/tokenizer_spec.h"

namespace litespark::token {

class Decoder {
 public:
  /// Without specs (nullopt) tokens are joined by spaces, as the library does.
  explicit Decoder(const std::optional<std::vector<DecoderSpec>>& specs);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// Whether the text is just the tokens' bytes in a row (a byte-level decoder alone).
  bool is_byte_level() const;

  /// Text of `tokens`; bytes that are no UTF-8 become U+FFFD.
  std::string decode(std::vector<std::string> tokens) const;

 private:
  struct Step;
  std::vector<std::unique_ptr<Step>> steps_;
  bool joins_with_spaces_ = false;
};

}  // namespace litespark::token
