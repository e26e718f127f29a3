// SPDX-License-Identifier: Apache-2.0
// A pass that only counts, then nlohmann's iterative parser feeding a builder that refuses duplicate keys.
#include "io/json_file.h"

#include <fmt/format.h>

#include <vector>

#include "core/quote.h"
#include "io/file.h"
#include "io/json_sax.h"

namespace litespark {
namespace {

using nlohmann::json;

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

class DomBuilder final : public StrictJsonSax {
 public:
  using StrictJsonSax::StrictJsonSax;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool integer(int64_t value) override { return add(value); }
  bool real(double value) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    const auto [slot, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(name, nullptr);
    if (!is_new) refuse(quote(name) + " twice", "has a duplicate key", "each key once");
    slot_ = &slot->second;
    return true;
  }

  json take() { return std::move(root_); }

 private:
  json* place(json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*slot_ = std::move(value));
    auto& array = open_.back()->get_ref<json::array_t&>();
    array.push_back(std::move(value));
    return &array.back();
  }
  template <class Value>
  bool add(Value&& value) {
    place(json(std::forward<Value>(value)));
    return true;
  }
  bool open(json&& value) {
    // Pointers stay valid: a container does not grow while one of its elements is open.
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  json* slot_ = nullptr;
  std::vector<json*> open_;
};

}  // namespace

void check_json_limits(std::string_view text, std::string_view where, const JsonLimits& limits) {
  const auto require = [&](int64_t value, int64_t limit, const char* what) {
    if (value > limit)
      throw DataError(where, what, fmt::format("more than {}", limit), fmt::format("at most {}", limit));
  };
  require(static_cast<int64_t>(text.size()), limits.max_bytes, "is too long in bytes");
  enum class Token : uint8_t { kStructure, kString, kBlank, kWord };
  Token token = Token::kStructure;
  int64_t depth = 0;
  int64_t values = 0;
  int64_t token_bytes = 0;
  bool is_escaped = false;
  for (const char c : text) {
    // nlohmann's lexer takes NUL for the end of the text and would ignore what follows.
    if (c == '\0') throw DataError(where, "is not valid JSON: it holds a NUL byte");
    if (token == Token::kString) {
      require(++token_bytes, limits.max_token_bytes, "holds a string that is too long");
      if (is_escaped) {
        is_escaped = false;
      } else if (c == '\\') {
        is_escaped = true;
      } else if (c == '"') {
        token = Token::kStructure;
      }
      continue;
    }
    if (c == '"') {
      token = Token::kString;
      token_bytes = 0;
      continue;
    }
    const bool is_open = c == '{' || c == '[';
    if (is_open || c == ',' || c == ':' || c == '}' || c == ']') {
      token = Token::kStructure;
      if (c == '}' || c == ']') {
        --depth;
      } else {
        require(++values, limits.max_values, "holds too many values");
        if (is_open) require(++depth, limits.max_depth, "is nested too deeply");
      }
      continue;
    }
    const Token kind = is_blank(c) ? Token::kBlank : Token::kWord;
    token_bytes = kind == token ? token_bytes + 1 : 1;
    token = kind;
    require(token_bytes, limits.max_token_bytes, "holds a number or a run of blanks that is too long");
  }
}

json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  check_json_limits(text, where, limits);
  DomBuilder builder(where);
  if (!json::sax_parse(text, &builder)) throw DataError(where, "is not valid JSON");
  return builder.take();
}

json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  const std::string text = read_text_file(path, limits.max_bytes);
  return parse_json(text, path.string(), limits);
}

}  // namespace litespark
