// SPDX-License-Identifier: Apache-2.0
// Encodes the documents of a text file once to warm up and once against the clock; prints seconds, bytes, tokens and a
// sum over the ids. bench/tokenizer.py runs it in turn with the tokenizers library.
#include "token/tokenizer.h"

#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.h"

namespace {

using litespark::token::Tokenizer;

// Documents end at the first line end after `size` bytes, as in tokenizer.py.
std::vector<std::string> documents(const std::string& text, size_t size) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t line_end = text.find('\n', begin + size - 1);
    const size_t end = line_end == std::string::npos ? text.size() : line_end + 1;
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

struct Pass {
  double seconds = 0;
  size_t tokens = 0;
  uint64_t sum = 0;
};

Pass encode_all(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  Pass pass;
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& text : texts) {
    const std::vector<int32_t> ids = tokenizer.encode(text, {.parse_special = true});
    pass.tokens += ids.size();
    for (const int32_t id : ids) pass.sum += static_cast<uint64_t>(id);
  }
  pass.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "bench_tokenizer TOKENIZER TEXT DOCUMENT_BYTES\n";
    return 2;
  }
  try {
    const Tokenizer tokenizer = Tokenizer::load(argv[1]);
    std::ifstream stream(argv[2], std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    const std::vector<std::string> texts = documents(text, std::stoul(argv[3]));
    const Pass cold = encode_all(tokenizer, texts);
    const Pass warm = encode_all(tokenizer, texts);
    std::cout << "{\"cold_seconds\": " << cold.seconds << ", \"seconds\": " << warm.seconds
              << ", \"bytes\": " << text.size() << ", \"tokens\": " << warm.tokens << ", \"sum\": " << warm.sum
              << "}\n";
  } catch (const litespark::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.exit_code());
  }
  return 0;
}
