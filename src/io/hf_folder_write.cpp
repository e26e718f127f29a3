// SPDX-License-Identifier: Apache-2.0
// Writing a folder: shards are planned from shapes alone, then filled part by part in the order that each file wants.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <system_error>

#include "core/error.h"
#include "io/file.h"
#include "io/hf_config.h"
#include "io/hf_folder.h"
#include "io/hf_index.h"
#include "io/safetensors_writer.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

constexpr std::array kTokenizerFiles = {"added_tokens.json",       "chat_template.jinja", "merges.txt",
                                        "special_tokens_map.json", "tokenizer.json",      "tokenizer.model",
                                        "tokenizer_config.json",   "vocab.json"};

/// One tensor of the export.
struct Item {
  const ParamSpec* param;
  const ParamPart* part;
  int64_t bytes;
};

struct ShardPlan {
  std::string file_name;
  std::vector<Item> items;
};

std::vector<ShardPlan> plan_shards(const ParamTable& table, const HfWriteOptions& options) {
  std::vector<ShardPlan> shards(1);
  int64_t shard_bytes = 0;
  for (const ParamSpec& param : table.params) {
    for (const ParamPart& part : param.parts) {
      const int64_t bytes = part.shape.num_elements() * dtype_bytes(options.dtype);
      if (!shards.back().items.empty() && shard_bytes + bytes > options.max_shard_bytes) {
        shards.emplace_back();
        shard_bytes = 0;
      }
      shards.back().items.push_back({.param = &param, .part = &part, .bytes = bytes});
      shard_bytes += bytes;
    }
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file_name = shards.size() == 1 ? "model.safetensors"
                                             : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

void write_shard(const fs::path& path, const ShardPlan& shard, DType dtype, const ProvidePart& provide) {
  std::vector<SafetensorsWriter::Declaration> declared;
  std::map<std::string, Item> items;
  for (const Item& item : shard.items) {
    declared.push_back(
        {.name = item.part->write_name, .dtype = safetensors_dtype_of(dtype), .shape = extents(item.part->shape)});
    items.emplace(item.part->write_name, item);
  }
  SafetensorsWriter writer(path, std::move(declared));
  for (const SafetensorsTensor& tensor : writer.order()) {
    const Item& item = items.at(tensor.name);
    provide(*item.param, *item.part, [&](std::span<const float> values) { writer.write_f32(tensor.name, values); });
  }
  writer.commit();
}

/// The names that plan_shards makes.
bool is_weight_file(const std::string& name) {
  if (name == "model.safetensors" || name == "model.safetensors.index.json") return true;
  constexpr std::string_view kPattern = "model-00000-of-00000.safetensors";
  const auto fits = [](char pattern, char c) { return pattern == '0' ? c >= '0' && c <= '9' : pattern == c; };
  return name.size() == kPattern.size() && std::equal(kPattern.begin(), kPattern.end(), name.begin(), fits);
}

/// A reader that finds both a single file and an index would load the older of the two.
void remove_stale_files(const fs::path& folder, const std::set<std::string>& written) {
  std::vector<fs::path> stale;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_weight_file(name) && !written.contains(name)) stale.push_back(entry->path());
  }
  if (error) throw IoError(folder.string(), "cannot be listed: " + error.message());
  for (const fs::path& path : stale) {
    if (!fs::remove(path, error) && error) throw IoError(path.string(), "cannot be removed: " + error.message());
  }
}

/// An older export stays until the new one is complete, so its space does not count.
void require_space(const fs::path& folder, const std::vector<ShardPlan>& shards) {
  constexpr int64_t kBytesForTheRest = int64_t{1} << 20;  // headers, index, config
  int64_t needed = kBytesForTheRest;
  for (const ShardPlan& shard : shards) {
    for (const Item& item : shard.items) needed += item.bytes;
  }
  const int64_t available = free_bytes(folder);
  if (available < needed) {
    throw IoError(folder.string(), "has too little space for the model", fmt::format("{} bytes free", available),
                  fmt::format("{} bytes", needed), "free some space or write bf16");
  }
}

}  // namespace

std::vector<std::string> tokenizer_files(const fs::path& folder) {
  std::vector<std::string> found;
  for (const char* const name : kTokenizerFiles) {
    std::error_code error;
    if (fs::is_regular_file(folder / name, error)) found.emplace_back(name);
  }
  return found;
}

void write_hf_folder(const fs::path& folder, const ModelConfig& config, const ParamTable& table,
                     const ProvidePart& provide, const HfWriteOptions& options) {
  const std::string config_text = hf_config_json(config, options.dtype);
  std::error_code error;
  if (!options.tokenizer_folder.empty() && !fs::is_directory(options.tokenizer_folder, error)) {
    throw IoError(options.tokenizer_folder.string(), "is not a folder to copy a tokenizer from");
  }
  fs::create_directories(folder, error);
  if (error) throw IoError(folder.string(), "cannot be made: " + error.message());

  const std::vector<ShardPlan> shards = plan_shards(table, options);
  require_space(folder, shards);
  std::set<std::string> written;
  HfIndex index{.file_of = {}, .total_size = 0};
  for (const ShardPlan& shard : shards) {
    write_shard(folder / shard.file_name, shard, options.dtype, provide);
    written.insert(shard.file_name);
    for (const Item& item : shard.items) {
      index.file_of.emplace(item.part->write_name, shard.file_name);
      index.total_size += item.bytes;
    }
  }
  if (shards.size() > 1) {
    write_text_file(folder / "model.safetensors.index.json", hf_index_text(index));
    written.insert("model.safetensors.index.json");
  }
  remove_stale_files(folder, written);

  if (!options.tokenizer_folder.empty() && !fs::equivalent(options.tokenizer_folder, folder, error)) {
    for (const std::string& name : tokenizer_files(options.tokenizer_folder)) {
      copy_file_bytes(options.tokenizer_folder / name, folder / name);
    }
  }
  const std::string generation_text = hf_generation_config_json(config);
  if (!generation_text.empty()) write_text_file(folder / "generation_config.json", generation_text);
  write_text_file(folder / "config.json", config_text);
}

}  // namespace litespark
