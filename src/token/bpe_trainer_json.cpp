// SPDX-License-Identifier: Apache-2.0
// The tokenizer.json of a trained BPE, in the layout that the tokenizers library writes.
#include <fmt/format.h>

#include <iterator>

#include "core/error.h"
#include "core/json_text.h"
#include "token/bpe_trainer.h"

namespace litespark::token {
namespace {

std::string_view pattern_text(KnownPattern pattern) {
  switch (pattern) {
    case KnownPattern::kGpt2: return kGpt2Pattern;
    case KnownPattern::kLlama3: return kLlama3Pattern;
    case KnownPattern::kQwen: return kQwenPattern;
  }
  throw InternalError("tokenizer_json", "unknown pattern", static_cast<int>(pattern), "a KnownPattern");
}

std::string byte_level(bool use_regex) {
  return fmt::format(R"({{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": {}}})",
                     use_regex);
}

std::string pre_tokenizer(KnownPattern pattern) {
  if (pattern == KnownPattern::kGpt2) return byte_level(true);
  return fmt::format(R"({{"type": "Sequence", "pretokenizers": [
    {{"type": "Split", "pattern": {{"Regex": {}}}, "behavior": "Isolated", "invert": false}},
    {}]}})",
                     json_string(pattern_text(pattern)), byte_level(false));
}

std::string added_tokens(const std::vector<std::string>& tokens) {
  std::string text;
  for (size_t id = 0; id < tokens.size(); ++id) {
    text += fmt::format(R"({}
    {{"id": {}, "content": {}, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}})",
                        id == 0 ? "" : ",", id, json_string(tokens[id]));
  }
  return text;
}

std::string post_processor(const BpeTrainOptions& options) {
  if (options.begin_token.empty()) return "null";
  size_t id = 0;
  while (options.special_tokens[id] != options.begin_token) ++id;
  const std::string name = json_string(options.begin_token);
  const std::string begin = fmt::format(R"({{"SpecialToken": {{"id": {}, "type_id": 0}}}})", name);
  const std::string first = R"({"Sequence": {"id": "A", "type_id": 0}})";
  const std::string second = R"({"Sequence": {"id": "B", "type_id": 1}})";
  return fmt::format(R"({{"type": "TemplateProcessing", "single": [{0}, {1}], "pair": [{0}, {1}, {0}, {2}],
    "special_tokens": {{{3}: {{"id": {3}, "ids": [{4}], "tokens": [{3}]}}}}}})",
                     begin, first, second, name, id);
}

}  // namespace

std::string tokenizer_json(const TrainedBpe& trained) {
  const BpeTrainOptions& options = trained.options;
  fmt::memory_buffer out;
  const auto write = [&](std::string_view text) { out.append(text); };
  write("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [");
  write(added_tokens(options.special_tokens));
  write("],\n  \"normalizer\": null,\n  \"pre_tokenizer\": " + pre_tokenizer(options.pattern));
  write(",\n  \"post_processor\": " + post_processor(options));
  write(",\n  \"decoder\": " + byte_level(true));
  write(R"(,
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
    "vocab": {)");
  for (size_t id = 0; id < trained.tokens.size(); ++id) {
    fmt::format_to(std::back_inserter(out), "{}\n      {}: {}", id == 0 ? "" : ",", json_string(trained.tokens[id]),
                   id);
  }
  write("},\n    \"merges\": [");
  for (size_t rank = 0; rank < trained.merges.size(); ++rank) {
    const auto& [left, right] = trained.merges[rank];
    fmt::format_to(std::back_inserter(out), "{}\n      [{}, {}]", rank == 0 ? "" : ",", json_string(left),
                   json_string(right));
  }
  write("]}\n}\n");
  return fmt::to_string(out);
}

}  // namespace litespark::token
