// SPDX-License-Identifier: Apache-2.0
#include "data/shard_set.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "io/json_file.h"
#include "io/sealed_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxDescriptionBytes = int64_t{64} << 20;

void require_size(const InputFile& file, int64_t elements, int64_t element_bytes) {
  const auto expected = checked_mul(elements, element_bytes);
  if (!expected || file.size() != *expected) {
    throw DataError(file.name(), "has the wrong size for its description", file.size(),
                    std::to_string(elements) + " x " + std::to_string(element_bytes) + " bytes",
                    "prepare the data again");
  }
}

/// Cumulative ends of one shard, checked, shifted by the tokens before it.
void append_ends(const fs::path& path, const ShardInfo& shard, int64_t first_token, std::vector<int64_t>& ends) {
  const InputFile file(path, Symlinks::kRefuse);
  require_size(file, shard.documents, sizeof(uint64_t));
  std::vector<uint64_t> raw(static_cast<size_t>(shard.documents));
  file.read_at(0, std::as_writable_bytes(std::span(raw)));
  uint64_t previous = 0;
  for (const uint64_t end : raw) {
    if (end <= previous || std::cmp_greater(end, shard.tokens)) {
      throw DataError(file.name(), "document ends must rise and stay inside the shard", end,
                      "more than " + std::to_string(previous) + ", at most " + std::to_string(shard.tokens));
    }
    previous = end;
    ends.push_back(first_token + static_cast<int64_t>(end));
  }
  if (std::cmp_not_equal(previous, shard.tokens)) {
    throw DataError(file.name(), "the last document must end with the shard", previous, shard.tokens);
  }
}

template <class Token>
void widen(std::span<const std::byte> bytes, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Token token;
    std::copy_n(bytes.data() + i * sizeof(Token), sizeof(Token), reinterpret_cast<std::byte*>(&token));
    out[i] = static_cast<int32_t>(token);
  }
}

}  // namespace

ShardSet ShardSet::open(const fs::path& folder) {
  constexpr const char* kDescription = "shards.json";
  if (!is_sealed(folder)) {
    std::error_code error;
    const bool is_folder = fs::is_directory(folder, error);
    throw DataError(folder.string(), "is not a complete folder of shards",
                    error       ? error.message()
                    : is_folder ? "no COMPLETE marker"
                                : "no folder",
                    "a folder made by `litespark prepare`");
  }
  const SealedManifest manifest = check_seal(folder);
  const std::string where = (folder / kDescription).string();
  ShardSet set;
  set.folder_ = folder;
  set.description_ =
      parse_shard_description(read_sealed_text(folder, manifest, kDescription, kMaxDescriptionBytes), where);
  int64_t first_token = 0;
  for (const ShardInfo& shard : set.description_.shards) {
    InputFile tokens(path_inside(folder, shard.name + ".tokens", where), Symlinks::kRefuse);
    require_size(tokens, shard.tokens, set.description_.token_bytes);
    const fs::path ends = path_inside(folder, shard.name + ".ends", where);
    append_ends(ends, shard, first_token, set.document_ends_);
    check_sealed_file(folder, manifest, shard.name + ".ends");
    set.shards_.push_back({.file = std::move(tokens), .first_token = first_token, .tokens = shard.tokens});
    first_token += shard.tokens;
  }
  if (first_token == 0) throw DataError(folder.string(), "holds no tokens");
  return set;
}

void ShardSet::read_shard(const Shard& shard, int64_t first, std::span<int32_t> out) const {
  const int64_t token_bytes = description_.token_bytes;
  std::vector<std::byte> raw(out.size() * static_cast<size_t>(token_bytes));
  shard.file.read_at((first - shard.first_token) * token_bytes, raw);
  shard.file.require_unchanged();
  if (token_bytes == 2) {
    widen<uint16_t>(raw, out);
  } else {
    widen<uint32_t>(raw, out);
  }
  for (const int32_t id : out) {
    if (id < 0 || id >= description_.vocab_size) {
      throw DataError(shard.file.name(), "token id outside the vocabulary: the file has changed or is damaged", id,
                      "0 to " + std::to_string(description_.vocab_size - 1));
    }
  }
}

void ShardSet::read(int64_t first, std::span<int32_t> out) const {
  if (first < 0 || first + static_cast<int64_t>(out.size()) > num_tokens()) {
    throw InternalError("shards", "tokens out of range", first, num_tokens());
  }
  auto shard = std::upper_bound(shards_.begin(), shards_.end(), first,
                                [](int64_t token, const Shard& candidate) { return token < candidate.first_token; });
  --shard;
  while (!out.empty()) {
    const int64_t left = shard->first_token + shard->tokens - first;
    const auto count = static_cast<size_t>(std::min<int64_t>(left, static_cast<int64_t>(out.size())));
    read_shard(*shard, first, out.first(count));
    out = out.subspan(count);
    first += static_cast<int64_t>(count);
    ++shard;
  }
}

void ShardSet::verify() const {
  check_sealed_folder(folder_);
}

std::string ShardSet::fingerprint() const {
  // The manifest holds a hash of every file, so its own hash stands for all of them.
  return "shards:" + hash_file(folder_ / "manifest.json") + ":" + std::to_string(num_tokens());
}

}  // namespace litespark
