// SPDX-License-Identifier: Apache-2.0
#include "token/regex_syntax.h"

#include <fmt/format.h>

#include "core/error.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

constexpr std::string_view kSpaceSet =
    R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Oniguruma counts the superscript digits and fractions of Latin-1 as word characters, outside classes only.
constexpr std::string_view kLatinWordNumbers = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kHexSet = "0-9A-Fa-f";

// Ranges of `property` that PCRE2's tables may lack, in class notation.
std::string additions_of(std::string_view property) {
  std::string ranges;
  for (const UnicodeAddition& addition : unicode_additions()) {
    const std::string_view category = addition.category;
    const bool belongs = category == property || (property.size() == 1 && category[0] == property[0]);
    if (belongs) {
      ranges += fmt::format(R"(\x{{{:X}}}-\x{{{:X}}})", static_cast<uint32_t>(addition.first),
                            static_cast<uint32_t>(addition.last));
    }
  }
  if (property == "Han") ranges = R"(\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
  return ranges;
}

std::string word_additions() {
  return additions_of("L") + additions_of("M") + additions_of("Nd");
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (position_ < pattern_.size()) {
      const char c = pattern_[position_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_char(c);
      } else if (c == '[') {
        open_class();
      } else if (c == '(' && pattern_.substr(position_, 2) == "(?") {
        group();
      } else {
        out_ += c;
        ++position_;
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    throw DataError("tokenizer pattern", "uses a construct that is not supported", construct,
                    "a pattern without nested or intersected character classes", std::string(pattern_.substr(0, 200)));
  }

  void open_class() {
    in_class_ = true;
    out_ += '[';
    ++position_;
    if (position_ < pattern_.size() && pattern_[position_] == '^') {
      out_ += '^';
      ++position_;
    }
    if (position_ < pattern_.size() && pattern_[position_] == ']') {
      out_ += "\\]";
      ++position_;
    }
  }

  void class_char(char c) {
    if (c == '&' && pattern_.substr(position_, 2) == "&&") refuse("&&");
    if (c == '[') {
      const size_t end =
          pattern_.substr(position_, 2) == "[:" ? pattern_.find(":]", position_) : std::string_view::npos;
      if (end == std::string_view::npos) refuse("[[");
      out_ += pattern_.substr(position_, end + 2 - position_);
      position_ = end + 2;
      return;
    }
    if (c == ']') in_class_ = false;
    out_ += c;
    ++position_;
  }

  // Ruby's (?m) lets the dot match newlines, which is (?s) elsewhere; lookarounds and named groups pass.
  void group() {
    size_t end = position_ + 2;
    while (end < pattern_.size() && std::string_view("imx-").find(pattern_[end]) != std::string_view::npos) ++end;
    const bool is_option =
        end < pattern_.size() && end > position_ + 2 && (pattern_[end] == ':' || pattern_[end] == ')');
    if (!is_option) {
      out_ += "(?";
      position_ += 2;
      return;
    }
    for (; position_ <= end; ++position_) {
      const char c = pattern_[position_];
      out_ += c == 'm' ? 's' : c;
    }
  }

  void set(std::string_view members, bool negated) {
    if (in_class_) {
      out_ += members;
    } else {
      out_ += fmt::format("[{}{}]", negated ? "^" : "", members);
    }
  }

  void escape() {
    const char c = position_ + 1 < pattern_.size() ? pattern_[position_ + 1] : '\0';
    const bool complement_in_class = in_class_ && (c == 'S' || c == 'W' || c == 'D' || c == 'H');
    if (complement_in_class && c == 'H') refuse("\\H inside a class");
    if (complement_in_class) return copy(2);
    switch (c) {
      case 's':
      case 'S': set(kSpaceSet, c == 'S'); break;
      case 'w':
      case 'W':
        set(std::string(kWordSet) + word_additions() + std::string(in_class_ ? "" : kLatinWordNumbers), c == 'W');
        break;
      case 'd':
      case 'D': set("\\p{Nd}" + additions_of("Nd"), c == 'D'); break;
      case 'h':
      case 'H': set(kHexSet, c == 'H'); break;
      case 'p':
      case 'P': return property(c == 'P');
      default: return copy(2);
    }
    position_ += 2;
  }

  void property(bool negated) {
    const size_t end = pattern_.find('}', position_);
    if (position_ + 2 >= pattern_.size() || pattern_[position_ + 2] != '{' || end == std::string_view::npos) {
      return copy(2);
    }
    std::string_view name = pattern_.substr(position_ + 3, end - position_ - 3);
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.remove_prefix(1);
    }
    position_ = end + 1;
    // PCRE2 reads a script's name as its extensions, Oniguruma as the script itself.
    const std::string positive = name == "Han" || name == "Hiragana" || name == "Katakana" || name == "Hangul"
                                     ? fmt::format("\\p{{sc:{}}}", name)
                                     : fmt::format("\\p{{{}}}", name);
    if (negated && in_class_) {
      out_ += "\\P" + positive.substr(2);
      return;
    }
    set(positive + additions_of(name), negated);
  }

  void copy(size_t count) {
    out_ += pattern_.substr(position_, count);
    position_ += count;
  }

  std::string_view pattern_;
  size_t position_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string to_pcre2_syntax(std::string_view pattern) {
  return Rewriter(pattern).run();
}

std::string escape_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-#&~/ \t\n\r\f\v").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace litespark::token
