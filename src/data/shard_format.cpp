// SPDX-License-Identifier: Apache-2.0
#include "data/shard_format.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "io/json_fields.h"
#include "io/json_file.h"

namespace litespark {
namespace {

constexpr int kFormatVersion = 1;

const nlohmann::json& get_list(const nlohmann::json& json, const char* name, const std::string& where) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array()) throw DataError(where + ": " + name, "must be a list");
  return *found;
}

ShardDescription parse_fields(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where);
  if (fields.get_int("format_version") != kFormatVersion) {
    throw DataError(fields.label("format_version"), "is not one that this version reads",
                    fields.get_int("format_version"), kFormatVersion);
  }
  ShardDescription description{.tokenizer_hash = fields.get_string("tokenizer_hash"),
                               .vocab_size = fields.get_count("vocab_size"),
                               .token_bytes = static_cast<int>(fields.get_count("token_bytes")),
                               .text_bytes = fields.get_count("text_bytes")};
  if (description.vocab_size == 0) throw DataError(fields.label("vocab_size"), "must be positive", 0, "1 or more");
  if (description.token_bytes != token_bytes_of(description.vocab_size)) {
    throw DataError(fields.label("token_bytes"), "does not fit the vocabulary", description.token_bytes,
                    token_bytes_of(description.vocab_size));
  }
  for (const auto& item : get_list(json, "shards", where)) {
    const JsonFields shard(item, where, "shards.");
    description.shards.push_back({.name = shard.get_string("name"),
                                  .tokens = shard.get_count("tokens"),
                                  .documents = shard.get_count("documents")});
  }
  for (const auto& item : get_list(json, "sources", where)) {
    const JsonFields source(item, where, "sources.");
    description.sources.push_back(
        {.name = source.get_string("name"), .hash = source.get_string("xxh3_128"), .bytes = source.get_count("bytes")});
  }
  return description;
}

}  // namespace

int64_t ShardDescription::tokens() const {
  return std::accumulate(shards.begin(), shards.end(), int64_t{0},
                         [](int64_t sum, const ShardInfo& shard) { return sum + shard.tokens; });
}

int64_t ShardDescription::documents() const {
  return std::accumulate(shards.begin(), shards.end(), int64_t{0},
                         [](int64_t sum, const ShardInfo& shard) { return sum + shard.documents; });
}

int token_bytes_of(int64_t vocab_size) {
  return vocab_size <= 65536 ? 2 : 4;
}

std::string shard_description_json(const ShardDescription& description) {
  nlohmann::json shards = nlohmann::json::array();
  for (const ShardInfo& shard : description.shards) {
    shards.push_back({{"name", shard.name}, {"tokens", shard.tokens}, {"documents", shard.documents}});
  }
  nlohmann::json sources = nlohmann::json::array();
  for (const SourceInfo& source : description.sources) {
    sources.push_back({{"name", source.name}, {"xxh3_128", source.hash}, {"bytes", source.bytes}});
  }
  return nlohmann::json{{"format_version", kFormatVersion},
                        {"tokenizer_hash", description.tokenizer_hash},
                        {"vocab_size", description.vocab_size},
                        {"token_bytes", description.token_bytes},
                        {"text_bytes", description.text_bytes},
                        {"tokens", description.tokens()},
                        {"documents", description.documents()},
                        {"shards", shards},
                        {"sources", sources}}
             .dump(1) +
         "\n";
}

ShardDescription parse_shard_description(const std::string& text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  if (!json.is_object()) throw DataError(where, "must hold an object");
  try {
    return parse_fields(json, where);
  } catch (const ConfigError& error) {
    throw DataError(where, error.what());
  }
}

}  // namespace litespark
