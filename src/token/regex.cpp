// SPDX-License-Identifier: Apache-2.0
#include "token/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <chrono>
#include <optional>

#include "core/error.h"
#include "token/regex_syntax.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKibibytes = 512 << 10;
constexpr size_t kJitStackBytes = 1 << 20;
// A search gives up looking for a start after this many bytes and looks at the clock before it goes on.
constexpr size_t kStartWindow = 256;
constexpr double kBaseSeconds = 1.0;
constexpr double kSecondsPerByte = 2e-6;

template <class T, void (*kFree)(T*)>
struct Deleter {
  void operator()(T* object) const { kFree(object); }
};
template <class T, void (*kFree)(T*)>
using Owned = std::unique_ptr<T, Deleter<T, kFree>>;

using Code = Owned<pcre2_code, pcre2_code_free>;
using CompileContext = Owned<pcre2_compile_context, pcre2_compile_context_free>;
using MatchContext = Owned<pcre2_match_context, pcre2_match_context_free>;
using MatchData = Owned<pcre2_match_data, pcre2_match_data_free>;
using JitStack = Owned<pcre2_jit_stack, pcre2_jit_stack_free>;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

PCRE2_SPTR bytes_of(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

struct Regex::Impl {
  std::string shown;  // the pattern's beginning, for messages
  Code code;
};

namespace {

/// One pass over one text: the state that pcre2_match needs and the clock.
class Search {
 public:
  Search(const pcre2_code* code, std::string_view text, std::string_view shown)
      : code_(code),
        text_(text),
        shown_(shown),
        context_(pcre2_match_context_create(nullptr)),
        data_(pcre2_match_data_create(1, nullptr)) {
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_heap_limit(context_.get(), kHeapLimitKibibytes);
  }

  /// Next match that starts at `from` or later.
  std::optional<TextRange> next(size_t from) {
    while (true) {
      pcre2_set_offset_limit(context_.get(), from + kStartWindow);
      const int found = match(from);
      if (found >= 0) {
        const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_.get());
        if (++matches_ % 1024 == 0) check_clock();
        return TextRange{offsets[0], offsets[1]};
      }
      if (found != PCRE2_ERROR_NOMATCH) {
        throw DataError("tokenizer pattern", "cannot be matched: " + message_of(found), shown_,
                        "a pattern without runaway backtracking");
      }
      from += kStartWindow + 1;
      while (from < text_.size() && (static_cast<uint8_t>(text_[from]) & 0xC0) == 0x80) ++from;
      if (from > text_.size()) return std::nullopt;
      check_clock();
    }
  }

 private:
  int match(size_t from) {
    const auto run = [&](uint32_t options) {
      return pcre2_match(code_, bytes_of(text_), text_.size(), from, PCRE2_NO_UTF_CHECK | options, data_.get(),
                         context_.get());
    };
    int found = run(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack_) {
      stack_.reset(pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr));
      pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
      found = run(0);
    }
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = run(PCRE2_NO_JIT);
    return found;
  }

  void check_clock() const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const double budget = kBaseSeconds + kSecondsPerByte * static_cast<double>(text_.size());
    if (elapsed.count() > budget) {
      throw DataError("tokenizer pattern", "takes too long on this text", shown_,
                      fmt::format("at most {:.1f} s for {} bytes", budget, text_.size()));
    }
  }

  const pcre2_code* code_;
  std::string_view text_;
  std::string_view shown_;
  MatchContext context_;
  MatchData data_;
  JitStack stack_;
  uint64_t matches_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Regex::Regex(const PatternSpec& pattern) : impl_(std::make_unique<Impl>()) {
  impl_->shown = pattern.text.substr(0, 120);
  if (pattern.text.empty()) throw DataError("tokenizer pattern", "is empty", "\"\"", "a pattern");
  if (pattern.text.size() > kMaxPatternBytes) {
    throw DataError("tokenizer pattern", "is too long", pattern.text.size(), "at most 65536 bytes");
  }
  if (!is_valid_utf8(pattern.text)) throw DataError("tokenizer pattern", "is not UTF-8", impl_->shown, "valid UTF-8");
  const std::string source = pattern.is_regex ? to_pcre2_syntax(pattern.text) : escape_regex(pattern.text);
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // In Ruby's syntax ^ and $ always mean the ends of a line.
  impl_->code.reset(pcre2_compile(bytes_of(source), source.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_USE_OFFSET_LIMIT, &error, &offset,
                                  context.get()));
  if (!impl_->code) {
    throw DataError("tokenizer pattern", "does not compile: " + message_of(error), impl_->shown,
                    "a regular expression");
  }
  // Without JIT (not built in, no executable memory) the interpreter gives the same matches.
  pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::for_each_match(std::string_view text, const std::function<void(TextRange)>& found) const {
  if (text.empty()) return;
  Search search(impl_->code.get(), text, impl_->shown);
  size_t from = 0;
  std::optional<size_t> last_end;
  while (from <= text.size()) {
    const std::optional<TextRange> match = search.next(from);
    if (!match) return;
    if (match->begin == match->end && last_end == match->end) {
      from += from < text.size() ? char_length(text[from]) : 1;
      continue;
    }
    from = match->end;
    last_end = match->end;
    found(*match);
  }
}

}  // namespace litespark::token
