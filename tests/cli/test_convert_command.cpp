// SPDX-License-Identifier: Apache-2.0
// `litespark convert`: what goes in comes out, bit for bit where the dtype allows it, or nothing comes out at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "cli/small_run.h"
#include "core/bf16.h"
#include "io/hf_config.h"
#include "io/safetensors.h"
#include "support/error_text.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

/// Name -> values of every tensor of a folder, whatever its files.
std::map<std::string, std::vector<float>> tensors_of(const fs::path& folder) {
  std::map<std::string, std::vector<float>> tensors;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("model") || !name.ends_with(".safetensors")) continue;
    const SafetensorsFile file = SafetensorsFile::open(entry.path());
    for (const SafetensorsTensor& tensor : file.tensors()) {
      std::vector<float>& values = tensors[tensor.name];
      values.resize(static_cast<size_t>(tensor.num_elements()));
      file.read_f32(tensor.name, values);
    }
  }
  return tensors;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Convert : public testing::Test {
 protected:
  ProgramResult convert(const fs::path& in, const std::string& out, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"convert", in.string(), out});
    return run_litespark(more, folder_.path().string());
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  const test::TemporaryFolder folder_;
};

// No other program's config.json has a word for it, and none must read its weights as a rotary model's.
TEST_F(Convert, RefusesAModelWithAlibiAndItsCheckpointIsReadAgain) {
  folder_.write("alibi.toml",
                "[model]\nvocab_size = 64\nhidden_size = 32\nintermediate_size = 64\npositions = \"alibi\"\n"
                "num_hidden_layers = 1\nnum_attention_heads = 3\nhead_dim = 16\n"
                "[data]\nsource = \"synthetic\"\nseq_len = 8\n[train]\nsteps = 2\nmicro_batch = 2\n"
                "[precision]\ncompute = \"fp32\"\n[device]\nkind = \"cpu\"\nthreads = 1\n");
  ASSERT_EQ(run_litespark({"train", "alibi.toml", "--out=run"}, folder_.path().string()).exit_code, 0);
  const ProgramResult refused = convert(path("run"), "exported");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.errors, "ALiBi"));
  EXPECT_FALSE(fs::exists(path("exported")));
  EXPECT_TRUE(contains(test::file_text(path("run/checkpoints/step-2/config.json")), "litespark_alibi_llama"));
  folder_.write("again.toml",
                "[model]\ninit = \"folder\"\npath = \"run/checkpoints/step-2\"\n[data]\nsource = \"synthetic\"\n"
                "seq_len = 8\n[train]\nsteps = 1\nmicro_batch = 2\n[device]\nkind = \"cpu\"\nthreads = 1\n");
  const ProgramResult again = run_litespark({"train", "again.toml", "--out=again"}, folder_.path().string());
  EXPECT_EQ(again.exit_code, 0) << again.errors;
}

TEST_F(Convert, EveryFamilyComesBackBitForBitWithItsTiesAndShards) {
  for (const char* name :
       {"llama-gqa", "llama-old-config", "llama-tied-rope3", "mistral-window", "qwen2-bias", "qwen3-qknorm"}) {
    const fs::path golden = test::golden_folder(name);
    const ProgramResult cut = convert(golden, std::string(name) + "-cut", {"--shard_mib=1"});
    ASSERT_EQ(cut.exit_code, 0) << cut.errors;
    EXPECT_TRUE(contains(cut.output, "every value as it was"));
    const ProgramResult back = convert(path(std::string(name) + "-cut"), std::string(name) + "-back");
    ASSERT_EQ(back.exit_code, 0) << back.errors;
    EXPECT_EQ(tensors_of(path(std::string(name) + "-back")), tensors_of(golden)) << name;
    const ModelConfig before = read_hf_config(golden / "config.json");
    const ModelConfig after = read_hf_config(path(std::string(name) + "-back") / "config.json");
    EXPECT_EQ(hf_config_json(after, DType::kF32), hf_config_json(before, DType::kF32)) << name;
    EXPECT_EQ(after.tie_word_embeddings, before.tie_word_embeddings);
  }
}

TEST_F(Convert, Bf16RoundsToNearestEvenAndComesBackTheSame) {
  const fs::path golden = test::golden_folder("llama-gqa");
  const ProgramResult narrow = convert(golden, "narrow", {"--dtype=bf16"});
  ASSERT_EQ(narrow.exit_code, 0) << narrow.errors;
  EXPECT_TRUE(contains(narrow.output, "values rounded"));
  EXPECT_TRUE(contains(test::file_text(path("narrow/config.json")), "\"bfloat16\""));
  auto expected = tensors_of(golden);
  for (auto& [name, values] : expected) {
    for (float& value : values) value = to_float(to_bf16(value));
  }
  EXPECT_EQ(tensors_of(path("narrow")), expected);
  ASSERT_EQ(convert(path("narrow"), "wide", {"--dtype=fp32"}).exit_code, 0);
  EXPECT_EQ(tensors_of(path("wide")), expected);
  ASSERT_EQ(convert(path("wide"), "again", {"--dtype=bf16"}).exit_code, 0);
  EXPECT_EQ(test::file_text(path("again/model.safetensors")), test::file_text(path("narrow/model.safetensors")));
}

TEST_F(Convert, WeightsThatNeedSeveralFilesGetAnIndex) {
  const fs::path golden = test::golden_folder("llama-old-config");  // has four shards, fits into one
  ASSERT_EQ(convert(golden, "one").exit_code, 0);
  EXPECT_EQ(names_in(path("one")),
            (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors"}));
  const SmallRun run;
  ASSERT_EQ(run.train({"--model.hidden_size=256", "--model.intermediate_size=512", "--out=r"}).exit_code, 0);
  ASSERT_EQ(convert(run.path("r"), "cut", {"--shard_mib=1"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(path("cut/model.safetensors.index.json")));
  EXPECT_GT(names_in(path("cut")).size(), 4u);
  EXPECT_EQ(tensors_of(path("cut")), tensors_of(run.path("r/checkpoints/step-6")));
}

TEST_F(Convert, ARunGivesItsNewestCheckpointWithTokenizerAndMasters) {  // report:B47
  const SmallRun run;
  const fs::path tokenizer = test::golden_folder("tokenizer-trained");
  ASSERT_EQ(run.train({"--precision.compute=bf16", "--model.vocab_size=640", "--data.tokenizer=" + tokenizer.string(),
                       "--out=r"})
                .exit_code,
            0);
  ASSERT_EQ(convert(run.path("r"), "same").exit_code, 0);
  EXPECT_EQ(test::file_text(path("same/model.safetensors")), run.text("r/checkpoints/step-6/model.safetensors"));
  EXPECT_EQ(test::file_text(path("same/tokenizer.json")), test::file_text(tokenizer / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(path("same/optimizer.safetensors")));

  const ProgramResult wide = convert(run.path("r"), "wide/", {"--dtype=fp32"});
  ASSERT_EQ(wide.exit_code, 0) << wide.errors;
  EXPECT_TRUE(contains(wide.output, "from the masters"));
  const SafetensorsFile masters = SafetensorsFile::open(run.path("r/checkpoints/step-6/optimizer.safetensors"));
  std::vector<float> norm(32);
  masters.read_f32("final_norm.master", norm);
  EXPECT_EQ(tensors_of(path("wide")).at("model.norm.weight"), norm);
}

TEST_F(Convert, NothingIsOverwrittenAndNothingIsLeftBehind) {
  const fs::path golden = test::golden_folder("llama-gqa");
  fs::create_directories(path("there"));
  const ProgramResult taken = convert(golden, "there");
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_TRUE(contains(taken.errors, "[OUT] exists already"));
  EXPECT_TRUE(names_in(path("there")).empty());

  fs::copy(golden, path("broken"));
  fs::resize_file(path("broken/model.safetensors"), 1000);
  EXPECT_EQ(convert(path("broken"), "out").exit_code, 3);
  EXPECT_EQ(names_in(folder_.path()), (std::vector<std::string>{"broken", "there"}));
}

TEST_F(Convert, ErrorsNameTheFieldOrTheTensor) {
  const fs::path golden = test::golden_folder("llama-gqa");
  fs::copy(golden, path("edited"));
  std::string config = test::file_text(golden / "config.json");
  const std::string key = "\"num_key_value_heads\": 2";
  config.replace(config.find(key), key.size(), "\"num_key_value_heads\": 3");
  folder_.write("edited/config.json", config);
  const ProgramResult heads = convert(path("edited"), "out");
  EXPECT_EQ(heads.exit_code, 2);
  EXPECT_TRUE(contains(heads.errors, "num_key_value_heads"));
  config.replace(config.find("\"num_key_value_heads\": 3"), key.size(), "\"num_key_value_heads\": 4");
  folder_.write("edited/config.json", config);
  const ProgramResult shape = convert(path("edited"), "out");
  EXPECT_EQ(shape.exit_code, 3);
  EXPECT_TRUE(contains(shape.errors, "k_proj.weight"));
  const ProgramResult dtype = convert(golden, "out", {"--dtype=int8"});
  EXPECT_EQ(dtype.exit_code, 2);
  EXPECT_TRUE(contains(dtype.errors, "dtype"));
  EXPECT_EQ(convert(path("absent"), "out").exit_code, 2);
}

TEST_F(Convert, ADamagedCheckpointIsRefused) {
  const SmallRun run;
  ASSERT_EQ(run.train({"--out=r"}).exit_code, 0);
  std::string state = run.text("r/checkpoints/step-6/state.json");
  state[state.size() / 2] ^= 1;
  std::ofstream(run.path("r/checkpoints/step-6/state.json"), std::ios::binary) << state;
  const ProgramResult result = convert(run.path("r"), "out");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(contains(result.errors, "state.json"));
}

}  // namespace
}  // namespace litespark
