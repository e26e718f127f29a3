// SPDX-License-Identifier: Apache-2.0
// fault:D4: any bytes as an index of shards. Refused with DataError, or every shard is a plain name in the folder.
#include "core/error.h"
#include "io/hf_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace litespark;
  try {
    const HfIndex index = parse_hf_index({reinterpret_cast<const char*>(data), size}, "index");
    for (const auto& [tensor, file] : index.file_of) {
      const bool is_plain =
          file.find('/') == std::string::npos && file.find('\0') == std::string::npos && file.ends_with(".safetensors");
      if (!is_plain) throw InternalError("fuzz_hf_index", "a shard outside the folder");
    }
    if (parse_hf_index(hf_index_text(index), "again").file_of != index.file_of) {
      throw InternalError("fuzz_hf_index", "the index does not survive");
    }
  } catch (const DataError&) {
  }
  return 0;
}
