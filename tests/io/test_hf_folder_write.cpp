// SPDX-License-Identifier: Apache-2.0
// Export: in, out and in again bit for bit; dtype, shards, sizes and tokenizer files as promised (report:B22, B25,
// B47).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/bf16.h"
#include "core/error.h"
#include "io/hf_folder.h"
#include "io/hf_index.h"
#include "support/error_text.h"
#include "support/failing_file_system.h"
#include "support/hf_model.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;
using test::expect_same_bits;
using test::golden_folder;
using test::HfModel;
using test::load_hf_model;
using test::store_hf_model;
using test::TemporaryFolder;

class GoldenFolder : public testing::TestWithParam<const char*> {};

TEST_P(GoldenFolder, ComesBackBitForBitAfterExport) {
  const HfModel original = load_hf_model(golden_folder(GetParam()));
  for (const int64_t max_shard_bytes : {int64_t{1} << 40, int64_t{100000}, int64_t{1}}) {
    const TemporaryFolder folder;
    store_hf_model(folder.path(), original, {.max_shard_bytes = max_shard_bytes});
    const HfModel again = load_hf_model(folder.path());
    EXPECT_EQ(again.config, original.config);
    expect_same_bits(again, original);
  }
}

TEST_P(GoldenFolder, KeepsTheNamesShapesAndBytesOfTheTensors) {
  const fs::path source = golden_folder(GetParam());
  const TemporaryFolder folder;
  store_hf_model(folder.path(), load_hf_model(source));
  const SafetensorsFile ours = SafetensorsFile::open(folder.path() / "model.safetensors");
  const HfFolder theirs = HfFolder::open(source);
  for (const SafetensorsTensor& tensor : ours.tensors()) {
    EXPECT_EQ(tensor.shape, theirs.info(tensor.name).shape) << tensor.name;
    EXPECT_EQ(tensor.dtype, theirs.info(tensor.name).dtype) << tensor.name;
  }
  if (!fs::exists(source / "model.safetensors")) return;
  const SafetensorsFile original = SafetensorsFile::open(source / "model.safetensors");
  EXPECT_EQ(ours.names(), original.names());
  for (const SafetensorsTensor& tensor : ours.tensors()) {
    std::vector<std::byte> a(static_cast<size_t>(tensor.bytes));
    std::vector<std::byte> b(a.size());
    ours.read(tensor.name, a);
    original.read(tensor.name, b);
    EXPECT_EQ(a, b) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(HfFolderWrite, GoldenFolder,
                         testing::Values("llama-gqa", "llama-tied-rope3", "llama-old-config", "mistral-window",
                                         "qwen2-bias", "qwen3-qknorm", "packed"));

TEST(HfFolderWrite, GivesConfigAndEveryTensorTheSameDtype) {  // report:B25
  const HfModel model = load_hf_model(golden_folder("llama-gqa"));
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t max_shard_bytes : {int64_t{1} << 40, int64_t{100000}}) {
      const TemporaryFolder folder;
      store_hf_model(folder.path(), model, {.dtype = dtype, .max_shard_bytes = max_shard_bytes});
      EXPECT_EQ(read_hf_config(folder.path() / "config.json").folder_dtype, dtype);
      int64_t bytes = 0;
      for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
        if (entry.path().extension() != ".safetensors") continue;
        const SafetensorsFile file = SafetensorsFile::open(entry.path());
        for (const SafetensorsTensor& tensor : file.tensors()) {
          EXPECT_EQ(tensor.dtype, dtype == DType::kF32 ? SafetensorsDType::kF32 : SafetensorsDType::kBF16);
          bytes += tensor.bytes;
        }
      }
      EXPECT_EQ(bytes, model.table.num_parameters * dtype_bytes(dtype));
      const fs::path index = folder.path() / "model.safetensors.index.json";
      EXPECT_EQ(fs::exists(index), max_shard_bytes == 100000);
      if (fs::exists(index)) {
        EXPECT_EQ(read_hf_index(index).total_size, bytes);
      }
    }
  }
}

TEST(HfFolderWrite, RoundsToBf16OnceAndThenKeepsEveryBit) {
  HfModel model = load_hf_model(golden_folder("qwen2-bias"));
  const TemporaryFolder first;
  store_hf_model(first.path(), model, {.dtype = DType::kBF16});
  for (auto& values : model.values) {
    for (float& value : values) value = to_float(to_bf16(value));
  }
  const HfModel rounded = load_hf_model(first.path());
  expect_same_bits(rounded, model);
  const TemporaryFolder second;
  store_hf_model(second.path(), rounded, {.dtype = DType::kBF16});
  EXPECT_EQ(test::file_text(first.path() / "model.safetensors"), test::file_text(second.path() / "model.safetensors"));
}

TEST(HfFolderWrite, WritesATiedEmbeddingOnce) {  // report:B22
  const TemporaryFolder folder;
  store_hf_model(folder.path(), load_hf_model(golden_folder("llama-tied-rope3")));
  const HfFolder files = HfFolder::open(folder.path());
  EXPECT_TRUE(files.contains("model.embed_tokens.weight"));
  EXPECT_FALSE(files.contains("lm_head.weight"));
  EXPECT_TRUE(read_hf_config(folder.path() / "config.json").tie_word_embeddings);
}

TEST(HfFolderWrite, KeepsShardsBelowTheLimitUnlessOneTensorIsLarger) {
  const HfModel model = load_hf_model(golden_folder("llama-gqa"));
  const TemporaryFolder folder;
  store_hf_model(folder.path(), model, {.max_shard_bytes = 60000});
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
    names.insert(entry.path().filename().string());
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile file = SafetensorsFile::open(entry.path());
    int64_t bytes = 0;
    for (const SafetensorsTensor& tensor : file.tensors()) bytes += tensor.bytes;
    EXPECT_TRUE(bytes <= 60000 || file.tensors().size() == 1) << entry.path();
  }
  const auto shards = static_cast<size_t>(
      std::count_if(names.begin(), names.end(), [](const std::string& n) { return n.starts_with("model-"); }));
  EXPECT_GT(shards, 2U);
  for (size_t i = 1; i <= shards; ++i) {
    char name[64];
    std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", i, shards);
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(HfFolderWrite, ReplacesAnOlderExportWithoutLeavingItsShards) {
  const TemporaryFolder folder;
  const HfModel old = load_hf_model(golden_folder("llama-gqa"));
  const HfModel model = load_hf_model(golden_folder("qwen3-qknorm"));
  folder.write("model-notes.safetensors", "not ours");
  for (const int64_t max_shard_bytes : {int64_t{100000}, int64_t{1} << 40, int64_t{50000}}) {
    store_hf_model(folder.path(), old, {.max_shard_bytes = max_shard_bytes});
    store_hf_model(folder.path(), model, {.max_shard_bytes = max_shard_bytes == 100000 ? int64_t{1} << 40 : 100000});
    expect_same_bits(load_hf_model(folder.path()), model);
    EXPECT_NE(fs::exists(folder.path() / "model.safetensors"),
              fs::exists(folder.path() / "model.safetensors.index.json"));
  }
  EXPECT_EQ(test::file_text(folder.path() / "model-notes.safetensors"), "not ours");
}

TEST(HfFolderWrite, CopiesTokenizerFilesByteForByte) {  // report:B47
  const TemporaryFolder tokenizer;
  const std::string odd("{\n\t\"a\" : 1.0,\r\n \"\xf0\x9f\x98\x80\": null }\n\n\0\xff", 35);
  const std::vector<std::string> names = {"added_tokens.json",       "chat_template.jinja", "merges.txt",
                                          "special_tokens_map.json", "tokenizer.json",      "tokenizer.model",
                                          "tokenizer_config.json",   "vocab.json"};
  for (const std::string& name : names) tokenizer.write(name, odd + name);
  tokenizer.write("pytorch_model.bin", "x");
  tokenizer.write("config.json", "not the model's");
  EXPECT_EQ(test::file_text(tokenizer.path() / "vocab.json").size(), odd.size() + 10);
  EXPECT_EQ(tokenizer_files(tokenizer.path()), names);
  const TemporaryFolder folder;
  const HfModel model = load_hf_model(golden_folder("llama-gqa"));
  store_hf_model(folder.path(), model, {.tokenizer_folder = tokenizer.path()});
  for (const std::string& name : names) EXPECT_EQ(test::file_text(folder.path() / name), odd + name);
  EXPECT_FALSE(fs::exists(folder.path() / "pytorch_model.bin"));
  EXPECT_EQ(read_hf_config(folder.path() / "config.json"), model.config);
  // Exporting into the folder itself leaves its tokenizer alone.
  store_hf_model(folder.path(), model, {.tokenizer_folder = folder.path()});
  EXPECT_EQ(test::file_text(folder.path() / "tokenizer.json"), odd + "tokenizer.json");
}

TEST(HfFolderWrite, SaysWhenThereIsNoFolderToCopyTheTokenizerFrom) {
  const TemporaryFolder folder;
  const HfModel model = load_hf_model(golden_folder("llama-gqa"));
  const HfWriteOptions options{.tokenizer_folder = folder.path() / "none"};
  EXPECT_TRUE(contains(error_text<IoError>([&] { store_hf_model(folder.path() / "out", model, options); }), "none"));
  EXPECT_FALSE(fs::exists(folder.path() / "out"));
}

TEST(HfFolderWrite, WritesTheGenerationConfigOnlyWhenTokenIdsAreKnown) {
  const TemporaryFolder folder;
  store_hf_model(folder.path() / "known", load_hf_model(golden_folder("llama-gqa")));
  const auto generation = nlohmann::json::parse(test::file_text(folder.path() / "known" / "generation_config.json"));
  EXPECT_EQ(generation, (nlohmann::json{{"bos_token_id", 1}, {"eos_token_id", 2}}));
  store_hf_model(folder.path() / "unknown", load_hf_model(golden_folder("qwen2-bias")));
  EXPECT_FALSE(fs::exists(folder.path() / "unknown" / "generation_config.json"));
}

TEST(HfFolderWrite, WritesNothingWhenTheDiskHasTooLittleSpace) {  // fault:A4
  const HfModel model = load_hf_model(golden_folder("llama-gqa"));
  const TemporaryFolder folder;
  const int64_t weights = model.table.num_parameters * 4;
  test::FailingFileSystem failing({.free_bytes = weights});
  const ScopedFileSystem scope(failing);
  const std::string message = error_text<IoError>([&] { store_hf_model(folder.path(), model); });
  EXPECT_TRUE(contains(message, "too little space"));
  EXPECT_TRUE(contains(message, std::to_string(weights) + " bytes free"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(HfFolderWrite, ReportsADiskThatFillsUpAtAnyWrite) {  // fault:A3
  const HfModel model = load_hf_model(golden_folder("llama-gqa"));
  int64_t call = 0;
  for (;; call += 3) {
    const TemporaryFolder folder;
    test::FailingFileSystem failing({.at_call = call, .error = ENOSPC});
    const ScopedFileSystem scope(failing);
    try {
      store_hf_model(folder.path(), model, {.max_shard_bytes = 200000});
      EXPECT_FALSE(failing.has_failed());
      break;
    } catch (const IoError& error) {
      EXPECT_TRUE(contains(error.what(), folder.path().string()));
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
      EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
    }
  }
  EXPECT_GT(call, 30);
}

}  // namespace
}  // namespace litespark
