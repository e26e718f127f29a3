// SPDX-License-Identifier: Apache-2.0
#include "token/tokenizer_file.h"

#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "token/tokenizer.h"
#include "token/tokenizer_json.h"

namespace litespark::token {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{512} << 20;

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw IoError(path.string(), "is no regular file", error ? error.message() : "something else", "a tokenizer.json");
  }
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const int64_t size = stream ? static_cast<int64_t>(stream.tellg()) : -1;
  if (size < 0) throw IoError(path.string(), std::string("cannot be opened: ") + std::strerror(errno));
  if (size > kMaxFileBytes) throw DataError(path.string(), "is too large", size, "at most 512 MiB");
  std::string bytes(static_cast<size_t>(size), '\0');
  stream.seekg(0);
  if (!stream.read(bytes.data(), size)) throw IoError(path.string(), "cannot be read");
  return bytes;
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::element element;
  const simdjson::error_code error = parser.parse(json.data(), json.size()).get(element);
  if (error != simdjson::SUCCESS) {
    throw DataError("tokenizer.json", "is no valid JSON", simdjson::error_message(error), "a JSON object");
  }
  const JsonValue root(element, "tokenizer.json");
  const std::string version = root.string_or("version", "1.0");
  if (version != "1.0") throw DataError("tokenizer.json", "has an unknown version", version, "1.0");
  for (const std::string_view key : {"truncation", "padding"}) {
    if (root.find(key)) throw DataError("tokenizer.json", std::string(key) + " is not supported", "a setting", "null");
  }
  TokenizerSpec spec;
  if (const auto tokens = root.find("added_tokens")) spec.added_tokens = read_added_tokens(*tokens);
  if (const auto node = root.find("normalizer")) read_normalizer(*node, &spec.normalizers);
  if (const auto node = root.find("pre_tokenizer")) read_pre_tokenizer(*node, &spec.pre_tokenizers);
  if (const auto node = root.find("post_processor")) spec.post_processor = read_post_processor(*node);
  if (const auto node = root.find("decoder")) read_decoder(*node, &spec.decoders.emplace());
  spec.model = read_model(root.at("model"));
  return spec;
}

std::string content_hash(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Tokenizer Tokenizer::parse(std::string_view json) {
  return Tokenizer(parse_tokenizer_json(json), content_hash(json));
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "tokenizer.json" : path;
  const std::string bytes = read_file(file);
  try {
    return parse(bytes);
  } catch (const DataError& error) {
    throw DataError(file.string(), error.what());
  }
}

}  // namespace litespark::token
