// SPDX-License-Identifier: Apache-2.0
// A shard is a plain file name in the index's own folder: an index cannot point elsewhere, nor at an index.
#include "io/hf_index.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/quote.h"
#include "io/file.h"
#include "io/json_file.h"

namespace litespark {
namespace {

using nlohmann::json;

constexpr size_t kMaxShards = 10000;

void check_shard_name(const std::string& name, std::string_view where) {
  path_inside({}, name, where);
  if (name.find('/') != std::string::npos || !name.ends_with(".safetensors")) {
    throw DataError(where, "names a shard that is not a file of the folder", quote(name), "NAME.safetensors");
  }
}

}  // namespace

HfIndex parse_hf_index(std::string_view text, std::string_view where) {
  const json document = parse_json(text, where);
  if (!document.is_object() || !document.contains("weight_map") || !document["weight_map"].is_object()) {
    throw DataError(where, "is not an index of weights", "no weight_map object", "{\"weight_map\": {...}}");
  }
  HfIndex index;
  std::map<std::string, bool> shards;
  for (const auto& [tensor, file] : document["weight_map"].items()) {
    if (!file.is_string()) throw DataError(where, "has a file name of the wrong type", file.type_name(), "a string");
    const auto& name = file.get_ref<const std::string&>();
    if (shards.emplace(name, true).second) check_shard_name(name, where);
    index.file_of.emplace(tensor, name);
  }
  if (index.file_of.empty()) throw DataError(where, "names no tensor");
  if (shards.size() > kMaxShards) throw DataError(where, "names too many shards", shards.size(), kMaxShards);
  if (const auto metadata = document.find("metadata"); metadata != document.end() && metadata->is_object()) {
    const auto total = metadata->find("total_size");
    // Some writers store a whole number with a fraction of zero.
    const bool is_there = total != metadata->end() && total->is_number();
    if (is_there && total->get<double>() >= 0.0 && total->get<double>() < 0x1p62) {
      index.total_size = total->get<int64_t>();
    }
  }
  return index;
}

HfIndex read_hf_index(const std::filesystem::path& path) {
  return parse_hf_index(read_text_file(path, JsonLimits{}.max_bytes), path.string());
}

std::string hf_index_text(const HfIndex& index) {
  nlohmann::ordered_json out;
  out["metadata"] = {{"total_size", index.total_size}};
  out["weight_map"] = nlohmann::ordered_json::object();
  for (const auto& [tensor, file] : index.file_of) out["weight_map"][tensor] = file;
  return out.dump(2) + "\n";
}

}  // namespace litespark
