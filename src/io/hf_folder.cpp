// SPDX-License-Identifier: Apache-2.0
// Reading a folder: headers first, then names against the table, then one part at a time into the caller's memory.
#include "io/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <system_error>

#include "core/error.h"
#include "core/quote.h"
#include "io/file.h"
#include "io/hf_index.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeadName = "lm_head.weight";
constexpr std::array kEmbeddingNames = {"model.embed_tokens.weight", "embed_tokens.weight"};
constexpr size_t kMaxNamesInMessage = 8;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Buffers that old checkpoints carry; angles are computed, not read.
bool is_ignored(const std::string& name) {
  return name.ends_with("rotary_emb.inv_freq");
}

std::string listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMaxNamesInMessage);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool has_shape(const SafetensorsTensor& tensor, const Shape& shape) {
  if (std::ssize(tensor.shape) != shape.rank()) return false;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (tensor.shape[static_cast<size_t>(dim)] != shape[dim]) return false;
  }
  return true;
}

[[noreturn]] void refuse_folder_without_weights(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw IoError(folder.string(), "is not a folder");
  for (const char* const pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"}) {
    if (is_there(folder / pickled)) {
      throw DataError(folder.string(), "holds pickled weights only", pickled, "model.safetensors",
                      "pickled weights can run code and are never read; load them in PyTorch and save them with "
                      "safetensors");
    }
  }
  throw IoError(folder.string(), "holds no weights", "neither", "model.safetensors or model.safetensors.index.json");
}

}  // namespace

HfFolder HfFolder::open(const fs::path& folder) {
  HfFolder result(folder);
  const fs::path single = folder / "model.safetensors";
  const fs::path index_path = folder / "model.safetensors.index.json";
  if (is_there(single)) {
    result.add_file(SafetensorsFile::open(single));
    return result;
  }
  if (!is_there(index_path)) refuse_folder_without_weights(folder);
  const HfIndex index = read_hf_index(index_path);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index.file_of) shards.insert(shard);
  for (const std::string& shard : shards) {
    if (!is_there(folder / shard))
      throw DataError(index_path.string(), "names a missing shard", "no " + shard, "the file");
    result.add_file(SafetensorsFile::open(folder / shard));
  }
  for (const auto& [tensor, shard] : index.file_of) {
    const auto found = result.file_of_.find(tensor);
    const fs::path holder = found == result.file_of_.end() ? "" : result.files_[found->second].file_name();
    if (holder.filename() != shard) {
      throw DataError(index_path.string(), fmt::format("says that {} is in {}", quote(tensor), shard),
                      holder.empty() ? "no shard that has it" : holder.filename().string(), shard);
    }
  }
  for (const auto& [tensor, file] : result.file_of_) {
    if (!index.file_of.contains(tensor)) {
      throw DataError(index_path.string(), "omits a tensor of a shard", quote(tensor), "every tensor");
    }
  }
  return result;
}

void HfFolder::add_file(SafetensorsFile file) {
  for (const SafetensorsTensor& tensor : file.tensors()) {
    const auto [other, is_new] = file_of_.emplace(tensor.name, files_.size());
    if (!is_new) {
      throw DataError(file.file_name(), fmt::format("holds {} a second time", quote(tensor.name)),
                      files_[other->second].file_name(), "each tensor in one shard");
    }
  }
  files_.push_back(std::move(file));
}

const SafetensorsFile& HfFolder::file_of(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) throw DataError(path_.string(), fmt::format("has no tensor {}", quote(name)));
  return files_[found->second];
}

const SafetensorsTensor& HfFolder::info(const std::string& name) const {
  return file_of(name).info(name);
}

std::string HfFolder::name_of(const ParamSpec& param, const ParamPart& part) const {
  for (const std::string& name : part.read_names) {
    if (contains(name)) return name;
  }
  // A tied model may have been saved with the head's name alone.
  if (has_tied_head_ && param.role == ParamRole::kEmbedding && contains(kHeadName)) return kHeadName;
  return {};
}

void HfFolder::check_tensor(const std::string& name, const ParamPart& part) const {
  const SafetensorsFile& file = file_of(name);
  const SafetensorsTensor& tensor = file.info(name);
  if (!has_shape(tensor, part.shape)) {
    throw DataError(file.file_name(), fmt::format("tensor {} has a shape that config.json excludes", quote(name)),
                    shape_text(tensor.shape), part.shape.to_string());
  }
  if (!is_float_dtype(tensor.dtype)) {
    throw DataError(file.file_name(), fmt::format("tensor {} has an unsupported dtype", quote(name)),
                    safetensors_dtype_name(tensor.dtype), "F32, BF16, F16 or F64");
  }
}

void HfFolder::check(const ModelConfig& config, const ParamTable& table) {
  has_tied_head_ = config.tie_word_embeddings;
  std::vector<std::string> missing;
  std::set<std::string> expected;
  if (has_tied_head_) expected.insert(kHeadName);
  for (const ParamSpec& param : table.params) {
    for (const ParamPart& part : param.parts) {
      const std::string name = name_of(param, part);
      if (name.empty()) {
        missing.push_back(part.write_name);
      } else {
        check_tensor(name, part);
        expected.insert(name);
      }
    }
  }
  if (!missing.empty()) {
    const bool lacks_head = std::find(missing.begin(), missing.end(), kHeadName) != missing.end();
    throw DataError(path_.string(), fmt::format("lacks {} tensors that config.json asks for", missing.size()),
                    listed(missing), "every parameter",
                    lacks_head ? "if the head is the embedding, config.json must say tie_word_embeddings: true" : "");
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, file] : file_of_) {
    if (!expected.contains(name) && !is_ignored(name)) unexpected.push_back(quote(name));
  }
  if (!unexpected.empty()) {
    throw DataError(path_.string(),
                    fmt::format("has {} tensors that config.json does not account for", unexpected.size()),
                    listed(unexpected), "the model's parameters only");
  }
  if (has_tied_head_) check_tied_head();
}

void HfFolder::check_tied_head() const {
  const auto embedding =
      std::find_if(kEmbeddingNames.begin(), kEmbeddingNames.end(), [&](const char* name) { return contains(name); });
  if (embedding == kEmbeddingNames.end() || !contains(kHeadName)) return;
  const SafetensorsTensor& a = info(*embedding);
  const SafetensorsTensor& b = info(kHeadName);
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<std::byte> left(static_cast<size_t>(std::min(kPiece, a.bytes)));
  std::vector<std::byte> right(left.size());
  bool is_equal = a.dtype == b.dtype && a.shape == b.shape;
  for (int64_t begin = 0; is_equal && begin < a.bytes; begin += kPiece) {
    const auto count = static_cast<size_t>(std::min(kPiece, a.bytes - begin));
    file_of(*embedding).read_bytes(*embedding, begin, std::span(left).first(count));
    file_of(kHeadName).read_bytes(kHeadName, begin, std::span(right).first(count));
    is_equal = std::memcmp(left.data(), right.data(), count) == 0;
  }
  if (!is_equal) {
    throw DataError(path_.string(), "says tie_word_embeddings: true, but lm_head.weight differs from the embedding",
                    "two different tensors", "equal ones", "set tie_word_embeddings to false to keep both");
  }
}

void HfFolder::read_parameter(const ParamSpec& param, std::span<float> out) const {
  if (std::ssize(out) != param.shape.num_elements()) {
    throw InternalError("hf_folder", "wrong size for " + param.name, out.size(), param.shape.num_elements());
  }
  const int64_t row_elements = param.shape.num_elements() / param.shape[0];
  for (const ParamPart& part : param.parts) {
    const std::string name = name_of(param, part);
    if (name.empty()) throw DataError(path_.string(), fmt::format("has no tensor {}", quote(part.write_name)));
    check_tensor(name, part);
    const SafetensorsFile& file = file_of(name);
    file.read_f32(name, out.subspan(static_cast<size_t>(part.first_row * row_elements),
                                    static_cast<size_t>(part.shape.num_elements())));
  }
}

}  // namespace litespark
