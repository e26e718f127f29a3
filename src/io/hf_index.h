// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace litespark {

struct HfIndex {
  std::map<std::string, std::string> file_of;  ///< tensor name -> shard's file name
  int64_t total_size = -1;                     ///< bytes of all tensors; -1 when the index does not say
};

/// DataError that starts with `where`: not an index, or a shard whose name is not a plain *.safetensors file name
/// (paths, "..", another index).
HfIndex parse_hf_index(std::string_view text, std::string_view where);

HfIndex read_hf_index(const std::filesystem::path& path);

/// The text of an index, tensors sorted.
std::string hf_index_text(const HfIndex& index);

}  // namespace litespark
