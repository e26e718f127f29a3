// SPDX-License-Identifier: Apache-2.0
#include "token/encoder.h"

#include <utility>

namespace litespark::token {
namespace {

/// One call: where it reads, works and writes.
struct Call {
  const TokenizerParts& parts;
  bool parse_special;
  EncodeScratch& scratch;
  std::vector<int32_t>& ids;
};

/// Takes the words of the pre-tokenizer to the model.
class WordEncoder final : public WordSink {
 public:
  explicit WordEncoder(const Call& call)
      : call_(call),
        form_(call.parts.pre_tokenizer.word_form()),
        is_guarded_(!call.parse_special && call.parts.guards_special) {}

  void add(std::string_view word) override {
    const TokenizerParts& parts = call_.parts;
    if (!parts.cutter) return encode(word);
    if (parts.model.ignores_merges() && parts.model.tokens().find(word) != kNoId) return encode(word);
    parts.cutter->for_each_part(word, [this](std::string_view part) { encode(part); });
  }

 private:
  void encode(std::string_view word) {
    std::vector<int32_t>& ids = call_.ids;
    const size_t before = ids.size();
    call_.parts.model.encode_word(word, form_, &call_.scratch.bpe, &ids);
    if (!is_guarded_) return;
    const std::vector<bool>& special = call_.parts.special;
    for (size_t i = before; i < ids.size(); ++i) {
      if (!special[static_cast<size_t>(ids[i])]) continue;
      ids.resize(before);
      call_.parts.model.encode_word_without(special, word, form_, &call_.scratch.bpe, &ids);
      return;
    }
  }

  Call call_;
  WordForm form_;
  bool is_guarded_;
};

void encode_normalized(const Call& call, std::string_view text, bool is_start) {
  WordEncoder words(call);
  call.parts.pre_tokenizer.run(text, is_start, &call.scratch.pre_tokenizer, &words);
}

void encode_raw(const Call& call, std::string_view raw, bool is_start) {
  const AddedTokens& added = call.parts.added;
  const std::string_view text = call.parts.normalizer.apply(raw, &call.scratch.normalized, &is_start);
  if (!added.has(true)) return encode_normalized(call, text, is_start);
  std::vector<TextSegment>& segments = call.scratch.segments;
  segments.clear();
  added.split(text, {.normalized = true, .parse_special = call.parse_special}, &segments);
  for (const TextSegment& segment : segments) {
    if (segment.id != kNoId) {
      call.ids.push_back(segment.id);
    } else {
      encode_normalized(call, text.substr(segment.begin, segment.end - segment.begin), is_start && segment.begin == 0);
    }
  }
}

}  // namespace

std::unique_ptr<EncodeScratch> ScratchPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<EncodeScratch>();
  std::unique_ptr<EncodeScratch> scratch = std::move(free_.back());
  free_.pop_back();
  return scratch;
}

void ScratchPool::give_back(std::unique_ptr<EncodeScratch> scratch) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(scratch));
}

void encode_text(const TokenizerParts& parts, std::string_view text, bool parse_special, EncodeScratch* scratch,
                 std::vector<int32_t>* ids) {
  const Call call{parts, parse_special, *scratch, *ids};
  if (!parts.added.has(false)) return encode_raw(call, text, true);
  std::vector<TextSegment>& segments = scratch->raw_segments;
  segments.clear();
  parts.added.split(text, {.normalized = false, .parse_special = parse_special}, &segments);
  for (const TextSegment& segment : segments) {
    if (segment.id != kNoId) {
      ids->push_back(segment.id);
    } else {
      encode_raw(call, text.substr(segment.begin, segment.end - segment.begin), segment.begin == 0);
    }
  }
}

}  // namespace litespark::token
