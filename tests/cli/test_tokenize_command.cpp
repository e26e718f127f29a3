// SPDX-License-Identifier: Apache-2.0
// `litespark tokenize` from outside: JSON lines both ways, wrong options, broken input; `verify` on tokenizer cases.
#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

constexpr const char* kTokenizer = LITESPARK_SOURCE_DIR "/tests/golden/tokenizer-bpe-llama3";

TEST(Tokenize, GoesToIdsAndBack) {
  const ProgramResult ids = run_litespark({"tokenize", kTokenizer, "--jsonl"}, {}, "{\"text\": \"Hello world\"}\n");
  EXPECT_EQ(ids.exit_code, 0) << ids.errors;
  EXPECT_EQ(ids.output, "{\"ids\": [0, 41, 545, 334, 306, 275, 77, 69]}\n");
  const ProgramResult text =
      run_litespark({"tokenize", kTokenizer, "--jsonl", "--decode", "--skip-special"}, {}, ids.output);
  EXPECT_EQ(text.output, "{\"text\": \"Hello world\"}\n");
}

TEST(Tokenize, PlainTextNeverBecomesASpecialToken) {
  const ProgramResult result = run_litespark({"tokenize", kTokenizer, "--jsonl", "--no-special", "--plain-text"}, {},
                                             "{\"text\": \"<|begin|>\"}\n");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_FALSE(contains(result.output, "[0]"));
}

TEST(Tokenize, ExitsThreeOnBrokenLinesAndTwoOnWrongOptions) {
  const ProgramResult broken = run_litespark({"tokenize", kTokenizer, "--jsonl"}, {}, "{\"text\": 5}\n");
  EXPECT_EQ(broken.exit_code, 3);
  EXPECT_TRUE(contains(broken.errors, "line 1"));
  EXPECT_EQ(run_litespark({"tokenize", kTokenizer, "--skip-special"}).exit_code, 2);
  EXPECT_EQ(run_litespark({"tokenize"}).exit_code, 2);
}

TEST(Tokenize, IdsOfNoTokenAreLeftOutAndWhatIsNoIdIsRefusedWithItsLine) {
  const auto decode = [](const std::string& input, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"tokenize", kTokenizer, "--decode"});
    return run_litespark(more, {}, input);
  };
  const ProgramResult beyond = decode("41 545 334 2147483647 306 275 77 69\n");
  EXPECT_EQ(beyond.exit_code, 0) << beyond.errors;
  EXPECT_EQ(beyond.output, "Hello world\n");
  for (const char* bad : {"-1", "2147483648", "99999999999999999999", "x", "1.5", "0x10"}) {
    const ProgramResult plain = decode("41\n41 " + std::string(bad) + "\n");
    EXPECT_EQ(plain.exit_code, 3) << bad << plain.errors;
    EXPECT_TRUE(contains(plain.errors, "[line 2] is no ")) << plain.errors;
    EXPECT_TRUE(contains(plain.errors, "got " + std::string(bad) + ", expected")) << plain.errors;
    EXPECT_EQ(decode("{\"ids\": [41, " + std::string(bad) + "]}\n", {"--jsonl"}).exit_code, 3) << bad;
  }
}

TEST(Tokenize, VerifyPassesOnTheLibrarysCases) {
  for (const char* name : {"tokenizer-bpe-gpt2", "tokenizer-bpe-llama2", "tokenizer-bpe-llama3"}) {
    const ProgramResult result = run_litespark({"verify", test::golden_folder(name).string(), "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
    EXPECT_TRUE(result.output.starts_with("{\"kind\": \"tokenizer\", \"pass\": true"));
  }
}

TEST(Tokenize, VerifyExitsOneOnAWrongId) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"model": {"vocab": {"a": 0}, "merges": []}})");
  folder.write("cases.json", R"([{"text": "a", "ids": [1], "ids_without_special": [0], "decoded": "a",
                                  "decoded_with_special": "a"}])");
  const ProgramResult result = run_litespark({"verify", folder.path().string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.output, "ids[0]"));
}

}  // namespace
}  // namespace litespark
