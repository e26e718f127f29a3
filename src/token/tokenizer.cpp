// SPDX-License-Identifier: Apache-2.0
#include "token/tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "token/encoder.h"
#include "token/tokenizer_parts.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 31;

using Pieces = std::vector<TemplatePiece>;

}  // namespace

struct Tokenizer::Impl {
  Impl(const TokenizerSpec& spec, std::string file_hash) : parts(spec), hash(std::move(file_hash)) {}

  void encode(std::string_view text, bool parse_special, std::vector<int32_t>* ids) const {
    if (text.size() >= kMaxTextBytes) {
      throw DataError("tokenizer", "the text is too long", text.size(), "less than 2 GiB", "split it into documents");
    }
    std::string repaired;
    if (!is_valid_utf8(text)) {
      repaired = repair_utf8(text);
      text = repaired;
    }
    std::unique_ptr<EncodeScratch> scratch = pool.take();
    encode_text(parts, text, parse_special, scratch.get(), ids);
    pool.give_back(std::move(scratch));
  }

  void fill(const Pieces& pieces, std::span<const std::string_view> sources, EncodeOptions options,
            std::vector<int32_t>* ids) const {
    for (const TemplatePiece& piece : pieces) {
      if (piece.kind != TemplatePiece::Kind::kSpecial) {
        encode(sources[piece.kind == TemplatePiece::Kind::kFirst ? 0 : 1], options.parse_special, ids);
      } else if (options.add_special) {
        ids->insert(ids->end(), piece.ids.begin(), piece.ids.end());
      }
    }
  }

  TokenizerParts parts;
  std::string hash;
  mutable ScratchPool pool;
};

Tokenizer::Tokenizer(const TokenizerSpec& spec, std::string hash)
    : impl_(std::make_unique<Impl>(spec, std::move(hash))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

void Tokenizer::encode_into(std::string_view text, EncodeOptions options, std::vector<int32_t>* ids) const {
  impl_->fill(impl_->parts.post_processor.single, {{text}}, options, ids);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  encode_into(text, options, &ids);
  return ids;
}

std::vector<int32_t> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                            EncodeOptions options) const {
  std::vector<int32_t> ids;
  impl_->fill(impl_->parts.post_processor.pair, {{first, second}}, options, &ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  const TokenizerParts& parts = impl_->parts;
  std::string bytes;
  std::vector<std::string> tokens;
  const bool is_byte_level = parts.decoder.is_byte_level();
  for (const int32_t id : ids) {
    if (!has_text(id, skip_special)) continue;
    const std::string& text = parts.texts[static_cast<size_t>(id)];
    if (is_byte_level) {
      bytes += text;
    } else {
      tokens.push_back(text);
    }
  }
  if (is_byte_level) return is_valid_utf8(bytes) ? bytes : repair_utf8(bytes);
  return parts.decoder.decode(std::move(tokens));
}

int32_t Tokenizer::vocabulary_size() const {
  return impl_->parts.vocabulary_size();
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const int32_t added = impl_->parts.added.find(token);
  const int32_t id = added != kNoId ? added : impl_->parts.model.tokens().find(token);
  return id == kNoId ? std::nullopt : std::optional(id);
}

std::optional<std::string> Tokenizer::id_to_token(int32_t id) const {
  for (const AddedTokenSpec& token : impl_->parts.added.tokens()) {
    if (token.id == id) return token.content;
  }
  if (!impl_->parts.model.tokens().contains(id)) return std::nullopt;
  return std::string(impl_->parts.model.tokens().text(id));
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < vocabulary_size() && impl_->parts.special[static_cast<size_t>(id)];
}

bool Tokenizer::has_text(int32_t id, bool skip_special) const {
  const TokenizerParts& parts = impl_->parts;
  if (id < 0 || id >= vocabulary_size() || !parts.present[static_cast<size_t>(id)]) return false;
  return !skip_special || !parts.skipped[static_cast<size_t>(id)];
}

const std::string& Tokenizer::hash() const {
  return impl_->hash;
}

void check_vocabulary(const Tokenizer& tokenizer, int64_t model_vocabulary_size) {
  if (tokenizer.vocabulary_size() <= model_vocabulary_size) return;
  throw DataError("tokenizer", "has more tokens than the model has embedding rows", tokenizer.vocabulary_size(),
                  fmt::format("at most {}", model_vocabulary_size), "use the tokenizer that belongs to the weights");
}

void check_tokenizer_hash(const Tokenizer& tokenizer, std::string_view recorded) {
  if (tokenizer.hash() == recorded) return;
  throw DataError("tokenizer", "is not the one that was recorded", tokenizer.hash(), recorded,
                  "use the tokenizer that belongs to the weights");
}

}  // namespace litespark::token
