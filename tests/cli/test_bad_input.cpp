// SPDX-License-Identifier: Apache-2.0
// What a careless or hostile user may hand to the program: each ends with the documented code and a message that names
// the place and what was wrong; nothing hangs, nothing dies by a signal.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

/// A folder with a text, a tokenizer of its own, shards, and a run file over them.
class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the quick brown fox jumps over lazy dog number " + std::to_string(i) + "\n";
    write("some.txt", text);
    write("data.toml",
          "[input]\npaths = [\"some.txt\"]\nsplit = \"line\"\n"
          "[tokenizer]\npath = \"tok\"\ntrain_vocab_size = 300\n[output]\npath = \"shards\"\n");
    ASSERT_EQ(run({"prepare", "data.toml"}).exit_code, 0);
    write("run.toml", kRunFile);
  }

  static constexpr const char* kRunFile =
      "[model]\nvocab_size = 512\nhidden_size = 32\nintermediate_size = 64\nnum_hidden_layers = 1\n"
      "num_attention_heads = 2\nmax_position_embeddings = 64\n[data]\npath = \"shards\"\ntokenizer = \"tok\"\nseq_len "
      "= 16\n"
      "[train]\nsteps = 2\nmicro_batch = 2\n[precision]\ncompute = \"fp32\"\n"
      "[device]\nkind = \"cpu\"\nthreads = 1\n[meter]\npeak_tflops = 1\n";

  fs::path path(const std::string& name) const { return folder_.path() / name; }
  void write(const std::string& name, std::string_view bytes) const { folder_.write(name, bytes); }
  std::string text(const std::string& name) const { return test::file_text(path(name)); }
  ProgramResult run(const Arguments& arguments, const std::string& input = "", const Arguments& launcher = {}) const {
    return run_litespark(arguments, folder_.path().string(), input, launcher);
  }
  void expect(const ProgramResult& result, int exit_code, const std::vector<std::string>& parts,
              const std::string& what) const {
    EXPECT_EQ(result.exit_code, exit_code) << what << ": " << result.errors;
    for (const std::string& part : parts) EXPECT_TRUE(contains(result.errors, part)) << what;
  }
  /// The run file with `from` replaced, or with `to` at its end when `from` is empty.
  void expect_run_file(std::string_view from, std::string_view to, const std::vector<std::string>& parts) const {
    std::string changed = kRunFile;
    if (from.empty()) {
      changed += to;
    } else {
      changed.replace(changed.find(from), from.size(), to);
    }
    write("changed.toml", changed);
    expect(run({"train", "changed.toml"}), 2, parts, std::string(to.substr(0, 60)));
    EXPECT_FALSE(fs::exists(path("runs"))) << to.substr(0, 60);
  }
  /// Trains a checkpoint to attack; its path.
  std::string make_checkpoint() const {
    EXPECT_EQ(run({"train", "run.toml"}).exit_code, 0);
    return "runs/run/checkpoints/step-2";
  }
  /// A copy of the checkpoint's model alone, as others publish one.
  void make_model(const std::string& checkpoint) const {
    fs::remove_all(path("model"));
    fs::create_directories(path("model"));
    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"})
      fs::copy(path(checkpoint + "/" + file), path(std::string("model/") + file));
  }
  void put_fifo(const std::string& name) const {
    fs::remove_all(path(name));
    ASSERT_EQ(::mkfifo(path(name).c_str(), 0600), 0);
  }
  void put_link(const std::string& name, const std::string& target) const {
    fs::remove_all(path(name));
    fs::create_symlink(target, path(name));
  }

  const test::TemporaryFolder folder_;
};

TEST_F(BadInput, RunFilesAreRefusedWithTheLineAndTheKey) {  // fault:F5
  expect_run_file("", "[optim]\nlr = nan\n", {"line 23: optim.lr] out of range; got nan, expected number, 0 to 10"});
  expect_run_file("", "[optim]\nlr = -inf\n", {"optim.lr] out of range; got -inf"});
  expect_run_file("", "[optim]\nlr = 1e400\n", {"line 23", "1e400"});
  expect_run_file("", "[optim]\nlr = -1\n", {"optim.lr] out of range; got -1"});
  expect_run_file("", "[optim]\nlr = 1\nlr = 2\n", {"line 24", "cannot redefine"});
  expect_run_file("", "[model]\nvocab_size = 3\n", {"line 22", "cannot redefine"});
  expect_run_file("", "[optim]\nlearning = 1\n", {"unknown key; got optim.learning"});
  expect_run_file("", "x = " + std::string(100000, '[') + "\n", {"line 22", "nested"});
  std::string tables;
  for (int i = 0; i < 50000; ++i) tables += "{a=";
  expect_run_file("", "x = " + tables + "\n", {"line 22", "nested"});
  expect_run_file("steps = 2", "steps = \"2\"", {"train.steps] wrong type; got \"2\", expected integer, 1 or more"});
  expect_run_file("steps = 2", "steps = 2.0", {"train.steps] wrong type; got 2.0"});
  expect_run_file("steps = 2", "steps = 1979-05-27", {"train.steps] wrong type; got a date or time"});
  expect_run_file("steps = 2", "steps = 99999999999999999999", {"line 13", "not representable"});
  expect_run_file("", std::string("\0\n", 2), {"line 22"});
  expect_run_file("[model]", "out = \"\xff\xfe\"\n[model]", {"line 1", "utf-8"});
  expect_run_file("[model]", "out = \"a\\u0000b\"\n[model]", {"line 1: out] holds a NUL character"});
}

TEST_F(BadInput, SizesPastEveryLimitAreRefusedByName) {  // fault:C15
  expect_run_file("seq_len = 16", "seq_len = 2147483648", {"data.seq_len] out of range; got 2147483648"});
  expect_run_file("micro_batch = 2", "micro_batch = 9223372036854775807", {"train.micro_batch] out of range"});
  expect_run_file("hidden_size = 32", "hidden_size = 9223372036854775806", {"[model.hidden_size] is too large"});
  expect_run_file("vocab_size = 512", "vocab_size = 9223372036854775807", {"[model.vocab_size] is too large"});
  expect_run_file("num_hidden_layers = 1", "num_hidden_layers = 4611686018427387904", {"num_hidden_layers] out of"});
  expect_run_file("num_attention_heads = 2", "num_attention_heads = 0", {"num_attention_heads] out of range; got 0"});
  expect_run_file("threads = 1", "threads = 999999999", {"device.threads] out of range"});
  const ProgramResult batch = run({"train", "run.toml", "--data.seq_len=16777216", "--train.micro_batch=1048576",
                                   "--model.max_position_embeddings=16777216"});
  expect(batch, 2, {"got 17592186044416, expected 1 to 2^31 - 1"}, "batch");
}

TEST_F(BadInput, WhatIsNoFileIsNotReadAndNothingWaits) {  // fault:A14
  put_fifo("fifo");
  put_link("loop", "loop");
  for (const char* name : {".", "none.toml", "fifo", "/dev/zero", "loop"}) {
    for (const char* command : {"train", "plan", "prepare"}) {
      expect(run({command, name}), 2, {std::string("[") + name + "] is not a file"}, name);
    }
    const Arguments text = {"train", "run.toml", "--data.source=text", "--data.path=" + std::string(name)};
    const ProgramResult result = run(text);
    EXPECT_TRUE(result.exit_code == 3 || result.exit_code == 4) << name << result.errors;
    EXPECT_TRUE(contains(result.errors, std::string("[") + name + "]"));
  }
  expect(run({"train", "run.toml", "--checkpoint.resume=none"}), 2, {"[checkpoint.resume] is no complete checkpoint"},
         "resume");
}

TEST_F(BadInput, ARunFolderWithSomethingElseInItsFilesPlacesIsRefused) {  // fault:A14
  ASSERT_EQ(run({"train", "run.toml"}).exit_code, 0);
  for (const std::string name : {"metrics.jsonl", "energy.jsonl", "emissions.csv", "memory.json", "run.toml"}) {
    const std::string place = "runs/run/" + name;
    for (const auto& [what, put] : std::vector<std::pair<std::string, std::function<void()>>>{
             {"fifo", [&] { put_fifo(place); }},
             {"loop", [&] { put_link(place, name); }},
             {"device", [&] { put_link(place, "/dev/full"); }},
             {"folder", [&] { fs::remove_all(path(place)), fs::create_directories(path(place)); }}}) {
      fs::remove_all(path("runs/run/checkpoints"));
      put();
      const ProgramResult result = run({"train", "run.toml"});
      EXPECT_TRUE(result.exit_code == 3 || result.exit_code == 4) << name << " " << what << result.exit_code;
      EXPECT_TRUE(contains(result.errors, "litespark: [" + place)) << what;
      fs::remove_all(path(place));
    }
  }
  put_link("runs/run/checkpoints", "checkpoints");
  expect(run({"train", "run.toml"}), 4, {"[runs/run/checkpoints]"}, "loop of checkpoints");
  expect(run({"train", "run.toml", "--out=/dev/full"}), 4, {"[/dev/full]"}, "out");
}

TEST_F(BadInput, DamagedLogsOfARunDoNotStopIt) {
  ASSERT_EQ(run({"train", "run.toml"}).exit_code, 0);
  fs::remove_all(path("runs/run/checkpoints"));
  std::string noise(3000, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * 37 + i / 7);
  write("runs/run/metrics.jsonl", "{\"step\": 99999999999999999999}\n{\"step\": -1}\n" + noise);
  write("runs/run/energy.jsonl", "{\"joules\": 1e400}\n" + noise);
  EXPECT_EQ(run({"train", "run.toml"}).exit_code, 0);
  const std::string metrics = text("runs/run/metrics.jsonl");
  EXPECT_TRUE(metrics.starts_with("{\"step\": 1, "));
  EXPECT_EQ(metrics.find("\"step\": -1"), std::string::npos);
  EXPECT_EQ(metrics.find(noise.substr(0, 100)), std::string::npos);
}

TEST_F(BadInput, AStepThatLostItsMarkerIsSetAsideWithAWarning) {  // report:B36
  const std::string checkpoint = make_checkpoint();
  fs::remove(path(checkpoint + "/COMPLETE"));
  const ProgramResult result = run({"train", "run.toml"});
  expect(result, 0, {"step-2 has no COMPLETE marker; it is set aside as incomplete-step-2"}, "marker");
  EXPECT_TRUE(fs::exists(path("runs/run/checkpoints/incomplete-step-2/model.safetensors")));
}

TEST_F(BadInput, DamagedShardsAreRefusedBeforeTheFirstStep) {  // fault:D15
  const auto refused = [&](const std::string& file, const std::function<void(std::string&)>& change,
                           const std::string& part) {
    std::string bytes = text("shards/" + file);
    const std::string whole = bytes;
    change(bytes);
    write("shards/" + file, bytes);
    for (const Arguments& arguments : {Arguments{"train", "run.toml"}}) expect(run(arguments), 3, {part}, file);
    write("shards/" + file, whole);
  };
  refused(
      "shard-00000.tokens", [](auto& bytes) { bytes.pop_back(); }, "shard-00000.tokens] has the wrong size");
  refused(
      "shard-00000.tokens", [](auto& bytes) { bytes[0] ^= 1; }, "shard-00000.tokens] is damaged");
  refused(
      "shard-00000.ends", [](auto& bytes) { bytes.clear(); }, "shard-00000.ends] has the wrong size");
  refused(
      "shards.json", [](auto& bytes) { bytes = std::string(1000000, '['); }, "shards.json] has the wrong size");
  refused(
      "shards.json", [](auto& bytes) { bytes[20] ^= 1; }, "shards.json] is damaged");
  refused(
      "manifest.json", [](auto& bytes) { bytes.resize(9); }, "does not vouch for manifest.json");
  refused(
      "COMPLETE", [](auto& bytes) { bytes = "x"; }, "does not vouch for manifest.json");
  expect(run({"train", "run.toml", "--data.path=none"}), 3, {"[none] is not a complete folder", "No such file"}, "");
  expect(run({"train", "run.toml", "--data.path=tok"}), 3, {"got no COMPLETE marker"}, "tok");
  put_fifo("shards/shard-00000.tokens");
  expect(run({"train", "run.toml"}), 3, {"shard-00000.tokens] is not a plain file"}, "fifo");
}

TEST_F(BadInput, ATokenizerThatCannotBeUsedIsRefusedBeforeAnythingIsMade) {
  fs::create_directories(path("broken"));
  write("broken/tokenizer.json", "{");
  const auto text_run = [&](const std::string& tokenizer) {
    return run({"train", "run.toml", "--data.source=text", "--data.path=some.txt", "--data.tokenizer=" + tokenizer});
  };
  expect(text_run("absent"), 2, {"[data.tokenizer] holds no tokenizer.json; got absent"}, "absent");
  expect(text_run("broken"), 3, {"[broken/tokenizer.json]", "is no valid JSON"}, "broken");
  expect(text_run(test::golden_folder("tokenizer-bpe-llama3").string()), 2,
         {"[data.tokenizer] ids of data.source = \"text\" are bytes, but this tokenizer reads id 32"}, "llama3");
  expect(run({"train", "run.toml", "--data.tokenizer=absent"}), 2, {"[data.tokenizer] holds no tokenizer.json"}, "");
  EXPECT_FALSE(fs::exists(path("runs")));
  EXPECT_EQ(text_run("tok").exit_code, 0) << "its first 256 ids are the bytes";
}

TEST_F(BadInput, TextsOfARunThatAreNotUtf8AreRefused) {
  for (const std::string key : {"out", "data.path", "train.sample_prompt"}) {
    expect(run({"train", "run.toml", "--" + key + "=a\xff"}), 2, {"[" + key + "] is not UTF-8"}, key);
  }
  EXPECT_FALSE(fs::exists(path("runs")));
  EXPECT_FALSE(fs::exists(path("a\xff")));
}

TEST_F(BadInput, AnotherTokenizerThanTheShardsIsRefused) {  // fault:D8
  fs::create_directories(path("other"));
  std::string changed = text("tok/tokenizer.json");
  const size_t a = changed.find("\"a\""), b = changed.find("\"b\"");
  ASSERT_TRUE(a != std::string::npos && b != std::string::npos);
  std::swap(changed[a + 1], changed[b + 1]);  // two ids change places
  write("other/tokenizer.json", changed);
  expect(run({"train", "run.toml", "--data.tokenizer=other"}), 2,
         {"[data.tokenizer] the shards were made with another tokenizer than other/tokenizer.json"}, "other");
  expect(run({"train", "run.toml", "--model.vocab_size=100"}), 2, {"more ids than the model's vocabulary; got 291"},
         "");
  const std::string checkpoint = make_checkpoint();
  fs::copy_file(path("other/tokenizer.json"), path(checkpoint + "/tokenizer.json"),
                fs::copy_options::overwrite_existing);
  fs::create_directories(path("model"));
  for (const char* name : {"config.json", "model.safetensors"})
    fs::copy_file(path(checkpoint) / name, path("model") / name);
  fs::copy_file(path("other/tokenizer.json"), path("model/tokenizer.json"));
  expect(run({"eval", "model", "shards"}), 2, {"[DATA] the shards were made with another tokenizer than model/"}, "");
  expect(
      run({"train", "run.toml", "--model.init=folder", "--model.path=model", "--data.tokenizer=", "--out=other_run"}),
      2, {"[data.path] the shards were made with another tokenizer than model/"}, "other_run");
  expect(run({"generate", "runs/run", "--prompt=a"}), 3, {"tokenizer.json] is damaged or belongs to another save"}, "");
}

TEST_F(BadInput, ModelFoldersAreRefusedByTheFileThatIsWrong) {  // fault:A7, fault:D11
  const std::string checkpoint = make_checkpoint();
  const auto refused = [&](const std::string& file, const std::function<void(std::string&)>& change, int code,
                           const std::string& part) {
    make_model(checkpoint);
    std::string bytes = text("model/" + file);
    change(bytes);
    write("model/" + file, bytes);
    expect(run({"generate", "model", "--prompt=a", "--max_tokens=2"}), code, {part}, part);
  };
  const auto field = [&](const std::string& key, const std::string& value, int code, const std::string& part) {
    refused(
        "config.json",
        [&](std::string& bytes) {
          const size_t at = bytes.find("\"" + key + "\"");
          ASSERT_NE(at, std::string::npos) << key;
          bytes.replace(at, bytes.find_first_of(",\n", at) - at, "\"" + key + "\": " + value);
        },
        code, part);
  };
  field("hidden_size", "0", 2, "hidden_size] must be positive; got 0");
  field("hidden_size", "4611686018427387904", 2, "hidden_size] is too large");
  field("num_key_value_heads", "3", 2, "num_key_value_heads] must divide");
  field("rope_theta", "-1", 2, "rope_theta] out of range; got -1");
  field("rope_theta", "1e400", 3, "config.json] is not valid JSON");
  field("rms_norm_eps", "NaN", 3, "config.json] is not valid JSON");
  field("model_type", "\"gpt9\"", 2, "model_type] is not a supported model type; got \"gpt9\"");
  field("vocab_size", "100", 3, "has more tokens than the model has embedding rows; got 291");
  refused(
      "config.json", [](auto& b) { b = std::string(100000, '['); }, 3, "config.json] is nested too deeply");
  refused(
      "model.safetensors", [](auto& b) { b.pop_back(); }, 3, "model.safetensors] ends before its last tensor");
  refused(
      "model.safetensors", [](auto& b) { b.resize(7); }, 3, "is too short for safetensors; got 7 bytes");
  refused(
      "model.safetensors", [](auto& b) { b[7] = 0x40; }, 3, "has a header that is too long");
  refused(
      "model.safetensors", [](auto& b) { b += "x"; }, 3, "has bytes after the last tensor");
  refused(
      "tokenizer.json", [](auto& b) { b.resize(b.size() / 2); }, 3, "tokenizer.json] is no valid JSON");
  refused(
      "tokenizer.json", [](auto& b) { b = std::string(1000000, '['); }, 3, "tokenizer.json] is no valid JSON");
  make_model(checkpoint);
  put_fifo("model/model.safetensors");
  expect(run({"generate", "model", "--prompt=a"}), 3, {"model.safetensors] cannot be read; got a FIFO"}, "fifo");
}

TEST_F(BadInput, WeightsThatAreNotNumbersEndInTheNumericCode) {  // fault:C1
  const std::string checkpoint = make_checkpoint();
  make_model(checkpoint);
  std::string bytes = text("model/model.safetensors");
  const size_t data = bytes.find('}', bytes.rfind(']')) + 2;
  for (size_t i = bytes.size() - 4; i > data; i -= 4) bytes.replace(i, 4, "\xff\xff\xff\x7f");
  write("model/model.safetensors", bytes);
  expect(run({"generate", "model", "--prompt=a"}), 6, {"no logit is finite"}, "generate");
  expect(run({"eval", "model", "shards"}), 6, {"[eval] the loss is not finite; got "}, "eval");
}

TEST_F(BadInput, TextsWithNothingInThemAreNoData) {  // fault:D16
  write("empty.txt", "");
  write("blank.txt", " \n\n\n");
  write("ones.txt", "a\nb\nc\n");
  const auto prepare = [&](const std::string& input, const std::string& output) {
    return run({"prepare", "data.toml", "--tokenizer.train_vocab_size=0", "--input.paths=" + input,
                "--output.path=" + output});
  };
  expect(prepare("empty.txt", "p"), 3, {"the sources hold no text"}, "empty");
  expect(prepare("blank.txt", "p"), 3, {"the sources hold no text"}, "blank");
  EXPECT_FALSE(fs::exists(path("p")));
  EXPECT_EQ(prepare("ones.txt", "ones").exit_code, 0);
  expect(run({"train", "run.toml", "--data.path=ones"}), 3, {"[data.path] holds no document of two tokens"}, "ones");
  expect(run({"train", "run.toml", "--data.path=ones", "--data.packing=stream"}), 3, {"holds fewer tokens than"}, "");
  expect(run({"train", "run.toml", "--data.source=text", "--data.path=empty.txt"}), 3, {"shorter than one sequence"},
         "");
  EXPECT_EQ(run({"train", "run.toml", "--out=short", "--data.seq_len=1"}).exit_code, 0);
}

TEST_F(BadInput, AModelWithoutATokenizerDoesNotGenerateAndSaysWhereOneComesFrom) {
  ASSERT_EQ(run({"train", "run.toml", "--data.source=text", "--data.path=some.txt", "--data.tokenizer="}).exit_code, 0);
  expect(run({"generate", "runs/run", "--prompt=a"}), 3,
         {"holds no tokenizer.json; got a model alone, expected one with its tokenizer", "data.tokenizer"}, "");
}

TEST_F(BadInput, PromptsMayHoldAnyBytes) {  // fault:D9
  make_checkpoint();
  const std::string odd = "\xff\xfe\xc3 \xed\xa0\x80";
  EXPECT_EQ(run({"generate", "runs/run", "--prompt=" + odd, "--max_tokens=2"}).exit_code, 0);
  expect(run({"generate", "runs/run", "--prompt="}), 2, {"[prompt] is empty"}, "empty");
  expect(run({"generate", "runs/run", "--prompt=" + std::string(100000, 'a')}), 2, {"leaves no room"}, "long");
  expect(run({"generate", "runs/run", "--prompt=a", "--temperature=nan"}), 2, {"temperature] out of range; got nan"},
         "");
  expect(run({"generate", "runs/run", "--prompt=a", "--top_p=1e400"}), 2, {"top_p] out of range; got inf"}, "");
}

TEST_F(BadInput, OutputThatNobodyTakesIsAStorageErrorAndTheRunIsSaved) {  // fault:A3
  const std::string bash = "bash";
  for (const char* const script :
       {"exec \"$@\" >/dev/full", "exec \"$@\" >&-", "\"$@\" | true; exit ${PIPESTATUS[0]}"}) {
    fs::remove_all(path("runs"));
    const ProgramResult result = run({"train", "run.toml", "--train.log_every=1"}, "", {bash, "-c", script, bash});
    expect(result, 4, {"[standard output] could not be written"}, script);
    EXPECT_TRUE(fs::exists(path("runs/run/checkpoints/step-2/COMPLETE"))) << script;
  }
  for (const Arguments& arguments : {Arguments{"plan", "run.toml"}, Arguments{"help"}, Arguments{"tokenize", "tok"}}) {
    const ProgramResult result = run(arguments, "a b c\n", {bash, "-c", "exec \"$@\" >/dev/full", bash});
    expect(result, 4, {"[standard output] could not be written"}, arguments[0]);
  }
}

TEST_F(BadInput, AClosedStreamDoesNotPutMessagesIntoAFileOfTheRun) {
  const ProgramResult result =
      run({"train", "run.toml", "--train.log_every=1"}, "", {"bash", "-c", "exec \"$@\" <&- >&- 2>&-", "bash"});
  EXPECT_EQ(result.exit_code, 4);
  for (const char* file : {"metrics.jsonl", "energy.jsonl", "emissions.csv", "run.toml"})
    EXPECT_EQ(text(std::string("runs/run/") + file).find("grad norm"), std::string::npos) << file;
}

}  // namespace
}  // namespace litespark
