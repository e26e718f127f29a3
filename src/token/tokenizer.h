// SPDX-License-Identifier: Apache-2.0
// A tokenizer as tokenizer.json describes it, giving the ids of the Hugging Face tokenizers library 0.23.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "token/tokenizer_spec.h"

namespace litespark::token {

struct EncodeOptions {
  /// Run the post-processor: add <s> and the like.
  bool add_special = false;
  /// Let text such as "<s>" become the special token. False, the rule for prompts and training data: text never
  /// becomes a special token, whatever it spells; added tokens that are not special still match.
  bool parse_special = false;
};

class Tokenizer {
 public:
  /// Throws DataError naming what is wrong in `spec`.
  explicit Tokenizer(const TokenizerSpec& spec, std::string hash = {});
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Reads `folder`/tokenizer.json (or the file itself). Throws IoError, DataError.
  static Tokenizer load(const std::filesystem::path& path);
  /// Reads the text of a tokenizer.json. Throws DataError.
  static Tokenizer parse(std::string_view json);

  /// Ids of `text`. Bytes that are no UTF-8 count as U+FFFD; NUL and U+FEFF are ordinary characters. Safe to call from
  /// several threads. Throws DataError for texts of 2 GiB or more and for single words over 64 MiB.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;
  /// Appends the ids of `text`.
  void encode_into(std::string_view text, EncodeOptions options, std::vector<int32_t>* ids) const;
  /// Ids of two texts, joined by the pair template of the post-processor.
  std::vector<int32_t> encode_pair(std::string_view first, std::string_view second, EncodeOptions options) const;

  /// Text of `ids`; ids that are no token are left out, as are special tokens if `skip_special`.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  /// Largest id + 1: the rows that a model's embedding must have.
  int32_t vocabulary_size() const;
  /// Id of a token's text (added tokens first), or nothing.
  std::optional<int32_t> token_to_id(std::string_view token) const;
  /// Text of a token as the vocabulary writes it, or nothing.
  std::optional<std::string> id_to_token(int32_t id) const;
  bool is_special(int32_t id) const;
  /// Whether decode reads `id` at all: it is a token, and none that `skip_special` leaves out.
  bool has_text(int32_t id, bool skip_special) const;

  /// XXH3-128 of the tokenizer.json's bytes in hexadecimal; empty if built from a spec.
  const std::string& hash() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Throws DataError unless a model with `model_vocabulary_size` embedding rows can take every id of `tokenizer`.
void check_vocabulary(const Tokenizer& tokenizer, int64_t model_vocabulary_size);

/// Throws DataError unless `tokenizer` has the hash that was `recorded` with the weights or the data.
void check_tokenizer_hash(const Tokenizer& tokenizer, std::string_view recorded);

}  // namespace litespark::token
