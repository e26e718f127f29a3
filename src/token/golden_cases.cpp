// SPDX-License-Identifier: Apache-2.0
#include "token/golden_cases.h"

#include <array>

#include "token/json_value.h"
#include "token/tokenizer.h"

namespace litespark::token {
namespace {

using Ids = std::vector<int32_t>;

constexpr size_t kShownCases = 8;

Ids read_ids(const JsonValue& node) {
  Ids ids;
  node.for_each_element([&](const JsonValue& id) { ids.push_back(id.id()); });
  return ids;
}

/// Comparisons of one member over all cases.
struct Tally {
  std::string_view name;
  size_t differing = 0;
  std::vector<CaseCheck> shown;

  void count(size_t index, bool is_equal) {
    if (is_equal) return;
    ++differing;
    if (shown.size() < kShownCases) shown.push_back({fmt::format("{}[{}]", name, index), 1, 0, false});
  }
};

}  // namespace

bool has_tokenizer_cases(const std::filesystem::path& folder) {
  return std::filesystem::is_regular_file(folder / "cases.json") &&
         std::filesystem::is_regular_file(folder / "tokenizer.json");
}

std::vector<CaseCheck> check_tokenizer_cases(const std::filesystem::path& folder) {
  const Tokenizer tokenizer = Tokenizer::load(folder);
  simdjson::dom::parser parser;
  simdjson::dom::element element;
  const std::filesystem::path file = folder / "cases.json";
  const simdjson::error_code error = parser.load(file.string()).get(element);
  if (error != simdjson::SUCCESS) {
    throw DataError(file.string(), "is no valid JSON", simdjson::error_message(error), "an array of cases");
  }
  std::array<Tally, 4> tallies = {{{"ids"}, {"ids_without_special"}, {"decoded"}, {"decoded_with_special"}}};
  size_t index = 0;
  JsonValue(element, file.string()).for_each_element([&](const JsonValue& row) {
    const std::string_view text = row.at("text").string();
    const Ids ids = read_ids(row.at("ids"));
    tallies[0].count(index, tokenizer.encode(text, {.add_special = true, .parse_special = true}) == ids);
    tallies[1].count(index, tokenizer.encode(text, {.parse_special = true}) == read_ids(row.at("ids_without_special")));
    tallies[2].count(index, tokenizer.decode(ids, true) == row.at("decoded").string());
    tallies[3].count(index, tokenizer.decode(ids, false) == row.at("decoded_with_special").string());
    ++index;
  });
  if (index == 0) throw DataError(file.string(), "holds no case", 0, "at least one");
  std::vector<CaseCheck> checks;
  for (const Tally& tally : tallies) {
    checks.push_back({std::string(tally.name), static_cast<double>(tally.differing), 0, tally.differing == 0});
    checks.insert(checks.end(), tally.shown.begin(), tally.shown.end());
  }
  return checks;
}

}  // namespace litespark::token
