// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder read and written through the parameter table: names, shapes and ties are settled before a
// weight moves.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "spec/model_config.h"
#include "spec/param_table.h"

namespace litespark {

/// The weights of a folder: model.safetensors, or model.safetensors.index.json with its shards.
class HfFolder {
 public:
  /// Reads and checks every header; no weights yet. IoError when a file is missing, DataError when one is malformed,
  /// when the index names files outside the folder, names a tensor that its shard lacks or omits one that it has, or
  /// when the folder holds only pickled weights.
  static HfFolder open(const std::filesystem::path& folder);

  /// DataError naming the tensors unless the folder holds exactly the table's: missing ones, unexpected ones (rotary
  /// inv_freq buffers are ignored), wrong shapes, dtypes that are not floating; and, with tied heads, an lm_head that
  /// differs from the embedding. To be called before the parameters are read.
  void check(const ModelConfig& config, const ParamTable& table);

  /// All parts of the parameter, converted to f32, in its stored layout; `out` has shape.num_elements() floats.
  void read_parameter(const ParamSpec& param, std::span<float> out) const;

  bool contains(const std::string& name) const { return file_of_.contains(name); }
  /// DataError when there is no such tensor.
  const SafetensorsTensor& info(const std::string& name) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit HfFolder(std::filesystem::path folder) : path_(std::move(folder)) {}
  void add_file(SafetensorsFile file);
  /// The first of the part's names that the folder has; empty when none.
  std::string name_of(const ParamSpec& param, const ParamPart& part) const;
  void check_tensor(const std::string& name, const ParamPart& part) const;
  const SafetensorsFile& file_of(const std::string& name) const;
  void check_tied_head() const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;  ///< tensor name -> index in files_
  bool has_tied_head_ = false;             ///< as the config given to check() says
};

struct HfWriteOptions {
  DType dtype = DType::kF32;  ///< of every tensor and of config.json: f32 or bf16
  int64_t max_shard_bytes = int64_t{5} << 30;
  /// Tokenizer files and chat template are copied from here byte for byte; empty: none.
  std::filesystem::path tokenizer_folder;
};

/// Calls `consume` with successive pieces of the part's f32 values in row-major order, all of them.
using ConsumeValues = std::function<void(std::span<const float>)>;
using ProvidePart = std::function<void(const ParamSpec&, const ParamPart&, const ConsumeValues& consume)>;

/// Writes config.json, generation_config.json when the config names token ids, the weights (one file, or shards and an
/// index whose total_size is their exact sum) and the tokenizer. The folder is made when absent. Every file is written
/// atomically, config.json last; files of an older export that the new one does not replace are removed. One
/// part's values pass at a time. Tied heads: the embedding is written once. Throws ConfigError; IoError, before
/// anything is written when the disk has too little space.
void write_hf_folder(const std::filesystem::path& folder, const ModelConfig& config, const ParamTable& table,
                     const ProvidePart& provide, const HfWriteOptions& options = {});

/// The files of a folder that belong to its tokenizer, those that exist, sorted.
std::vector<std::string> tokenizer_files(const std::filesystem::path& folder);

}  // namespace litespark
