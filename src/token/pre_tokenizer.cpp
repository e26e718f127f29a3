// SPDX-License-Identifier: Apache-2.0
#include "token/pre_tokenizer.h"

#include <optional>

#include "core/error.h"
#include "token/byte_alphabet.h"
#include "token/known_pattern.h"
#include "token/regex.h"
#include "token/split_behavior.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

using Kind = PreTokenizerSpec::Kind;

// Calls emit(begin, end) for each maximal run of characters of one class; class_of(code point) gives the class.
template <class ClassOf, class Emit>
void for_each_run(std::string_view text, ClassOf&& class_of, Emit&& emit) {
  size_t begin = 0;
  while (begin < text.size()) {
    const DecodedChar first = decode_char(text, begin);
    const auto kind = class_of(first.code_point);
    size_t end = begin + first.length;
    while (end < text.size()) {
      const DecodedChar c = decode_char(text, end);
      if (class_of(c.code_point) != kind) break;
      end += c.length;
    }
    emit(begin, end, kind);
    begin = end;
  }
}

bool has_class(char32_t code_point, uint8_t classes) {
  return (char_class(code_point) & classes) != 0;
}

}  // namespace

struct PreTokenizer::Step {
  PreTokenizerSpec spec;
  std::optional<KnownPattern> known;  // a pattern that tiles the text and needs no regular expression
  std::optional<Regex> regex;
};

/// One call of run(): carries a piece through the steps from `index` on.
struct PreTokenizer::Run {
  const PreTokenizer& owner;
  PreTokenizerScratch& scratch;
  WordSink& sink;

  void pass(size_t index, std::string_view piece, bool is_start) {
    if (piece.empty()) return;
    if (index == owner.steps_.size()) return sink.add(piece);
    const Step& step = *owner.steps_[index];
    switch (step.spec.kind) {
      case Kind::kByteLevel: return byte_level(index, piece, is_start);
      case Kind::kSplit: return split(index, piece, is_start);
      case Kind::kDigits: return digits(index, piece, is_start);
      case Kind::kMetaspace: return metaspace(index, piece, is_start);
      case Kind::kPunctuation:
        return by_class(index, piece, is_start, [](char32_t c) { return has_class(c, kPunctuation); });
      case Kind::kWhitespaceSplit:
        return by_class(index, piece, is_start, [](char32_t c) { return has_class(c, kSpace); });
      case Kind::kDelimiter: {
        const char32_t delimiter = decode_char(step.spec.character, 0).code_point;
        return by_class(index, piece, is_start, [=](char32_t c) { return c == delimiter; });
      }
      case Kind::kWhitespace: return whitespace(index, piece, is_start);
    }
  }

  void byte_level(size_t index, std::string_view piece, bool is_start) {
    const PreTokenizerSpec& spec = owner.steps_[index]->spec;
    if (spec.add_prefix_space && piece[0] != ' ') {
      scratch.changed[index].assign(1, ' ').append(piece);
      piece = scratch.changed[index];
    }
    const bool is_last = index + 1 == owner.steps_.size();
    for (size_t begin = 0; begin < piece.size();) {
      const size_t end = spec.use_regex ? next_word_end(KnownPattern::kGpt2, piece, begin) : piece.size();
      const std::string_view word = piece.substr(begin, end - begin);
      if (is_last) {
        sink.add(word);
      } else {
        std::string& mapped = scratch.mapped[index];
        mapped.clear();
        append_byte_chars(word, &mapped);
        pass(index + 1, mapped, is_start && begin == 0);
      }
      begin = end;
    }
  }

  void split(size_t index, std::string_view piece, bool is_start) {
    const Step& step = *owner.steps_[index];
    if (step.known) {
      for (size_t begin = 0; begin < piece.size();) {
        const size_t end = next_word_end(*step.known, piece, begin);
        pass(index + 1, piece.substr(begin, end - begin), is_start && begin == 0);
        begin = end;
      }
      return;
    }
    std::vector<TextRange> matches;
    step.regex->for_each_match(piece, [&](TextRange match) { matches.push_back(match); });
    emit(index, piece, is_start, apply_behavior(step.spec.behavior, cover_text(piece, matches, step.spec.invert)));
  }

  void emit(size_t index, std::string_view piece, bool is_start, const std::vector<TextRange>& ranges) {
    for (const TextRange& range : ranges) {
      pass(index + 1, piece.substr(range.begin, range.end - range.begin), is_start && range.begin == 0);
    }
  }

  void digits(size_t index, std::string_view piece, bool is_start) {
    const bool individual = owner.steps_[index]->spec.individual_digits;
    for_each_run(
        piece, [](char32_t c) { return has_class(c, kNumeric); },
        [&](size_t begin, size_t end, bool is_numeric) {
          while (is_numeric && individual && begin < end) {
            const size_t length = char_length(piece[begin]);
            pass(index + 1, piece.substr(begin, length), is_start && begin == 0);
            begin += length;
          }
          pass(index + 1, piece.substr(begin, end - begin), is_start && begin == 0);
        });
  }

  void metaspace(size_t index, std::string_view piece, bool is_start) {
    const PreTokenizerSpec& spec = owner.steps_[index]->spec;
    const std::string& mark = spec.character;
    std::string& text = scratch.changed[index];
    text.clear();
    const bool has_mark = piece[0] == ' ' || piece.starts_with(mark);
    const bool prepends =
        spec.prepend_scheme == PrependScheme::kAlways || (spec.prepend_scheme == PrependScheme::kFirst && is_start);
    if (prepends && !has_mark) text += mark;
    for (size_t i = 0; i < piece.size();) {
      const size_t space = std::min(piece.find(' ', i), piece.size());
      text.append(piece.substr(i, space - i));
      if (space < piece.size()) text += mark;
      i = space + 1;
    }
    const std::string_view whole = text;
    for (size_t begin = 0; begin < whole.size();) {
      const size_t end = spec.split ? std::min(whole.find(mark, begin + 1), whole.size()) : whole.size();
      pass(index + 1, whole.substr(begin, end - begin), is_start && begin == 0);
      begin = end;
    }
  }

  // Every character of the class is a match of its own.
  template <class IsMatch>
  void by_class(size_t index, std::string_view piece, bool is_start, IsMatch&& is_match) {
    const PreTokenizerSpec& spec = owner.steps_[index]->spec;
    std::vector<TextRange> matches;
    for (size_t i = 0; i < piece.size();) {
      const DecodedChar c = decode_char(piece, i);
      if (is_match(c.code_point)) matches.push_back({i, i + c.length});
      i += c.length;
    }
    emit(index, piece, is_start, apply_behavior(spec.behavior, cover_text(piece, matches, false)));
  }

  // \w+|[^\w\s]+
  void whitespace(size_t index, std::string_view piece, bool is_start) {
    const auto class_of = [](char32_t c) { return has_class(c, kWord) ? 'w' : has_class(c, kSpace) ? 's' : 'o'; };
    for_each_run(piece, class_of, [&](size_t begin, size_t end, char kind) {
      if (kind != 's') pass(index + 1, piece.substr(begin, end - begin), is_start && begin == 0);
    });
  }
};

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerSpec>& specs) {
  for (const PreTokenizerSpec& spec : specs) {
    auto step = std::make_unique<Step>();
    step->spec = spec;
    if (spec.kind == Kind::kSplit) {
      const bool tiles = spec.pattern.is_regex && spec.behavior == SplitBehavior::kIsolated;
      if (tiles) step->known = find_known_pattern(spec.pattern.text);
      if (!step->known) step->regex.emplace(spec.pattern);
    }
    steps_.push_back(std::move(step));
  }
}

PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

WordForm PreTokenizer::word_form() const {
  const bool is_bytes = !steps_.empty() && steps_.back()->spec.kind == Kind::kByteLevel;
  return is_bytes ? WordForm::kBytes : WordForm::kChars;
}

void PreTokenizer::run(std::string_view text, bool is_start, PreTokenizerScratch* scratch, WordSink* sink) const {
  scratch->changed.resize(steps_.size());
  scratch->mapped.resize(steps_.size());
  Run{*this, *scratch, *sink}.pass(0, text, is_start);
}

}  // namespace litespark::token
