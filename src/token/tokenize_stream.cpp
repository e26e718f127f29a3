// SPDX-License-Identifier: Apache-2.0
#include "token/tokenize_stream.h"

#include <charconv>
#include <istream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "core/json_text.h"
#include "token/json_value.h"

namespace litespark::token {
namespace {

using Ids = std::vector<int32_t>;

/// Ids without a check against the vocabulary: decode leaves out those that are no token.
Ids read_plain_ids(std::string_view line, const std::string& where) {
  Ids ids;
  for (size_t at = line.find_first_not_of(" \t\r"); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    int32_t id = 0;
    const auto [rest, error] = std::from_chars(line.data() + at, line.data() + end, id);
    if (error != std::errc{} || rest != line.data() + end) {
      throw DataError(where, "is no list of ids", line.substr(at, end - at), "integers up to 2^31 - 1 and spaces");
    }
    if (id < 0) throw DataError(where, "is no token id", id, "0 to 2^31 - 1");
    ids.push_back(id);
    at = line.find_first_not_of(" \t\r", end);
  }
  return ids;
}

std::string join_ids(const Ids& ids, std::string_view separator) {
  fmt::memory_buffer buffer;
  for (size_t i = 0; i < ids.size(); ++i) {
    fmt::format_to(std::back_inserter(buffer), "{}{}", i == 0 ? std::string_view() : separator, ids[i]);
  }
  return fmt::to_string(buffer);
}

/// One line at a time; keeps the JSON parser's memory.
class LineTokenizer {
 public:
  LineTokenizer(const Tokenizer& tokenizer, const TokenizeOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  std::string convert(std::string_view line, const std::string& where) {
    if (options_.decode) {
      const Ids ids = options_.jsonl ? read_json_ids(line, where) : read_plain_ids(line, where);
      const std::string text = tokenizer_.decode(ids, options_.skip_special);
      return options_.jsonl ? "{\"text\": " + json_string(text) + "}" : text;
    }
    const std::string_view text = options_.jsonl ? member(line, where, "text").string() : line;
    const Ids ids =
        tokenizer_.encode(text, {.add_special = !options_.no_special, .parse_special = !options_.plain_text});
    return options_.jsonl ? "{\"ids\": [" + join_ids(ids, ", ") + "]}" : join_ids(ids, " ");
  }

 private:
  JsonValue member(std::string_view line, const std::string& where, std::string_view key) {
    simdjson::dom::element element;
    const simdjson::error_code error = parser_.parse(line.data(), line.size()).get(element);
    if (error != simdjson::SUCCESS) {
      throw DataError(where, "is no valid JSON", simdjson::error_message(error),
                      fmt::format("an object with \"{}\"", key));
    }
    return JsonValue(element, where).at(key);
  }

  Ids read_json_ids(std::string_view line, const std::string& where) {
    Ids ids;
    member(line, where, "ids").for_each_element([&](const JsonValue& id) { ids.push_back(id.id()); });
    return ids;
  }

  const Tokenizer& tokenizer_;
  TokenizeOptions options_;
  simdjson::dom::parser parser_;
};

}  // namespace

void tokenize_stream(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in, std::ostream& out) {
  LineTokenizer lines(tokenizer, options);
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (options.jsonl && line.find_first_not_of(" \t\r") == std::string::npos) continue;
    out << lines.convert(line, fmt::format("line {}", number)) << '\n';
  }
  if (in.bad()) throw IoError("standard input", "cannot be read");
}

}  // namespace litespark::token
