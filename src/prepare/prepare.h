// SPDX-License-Identifier: Apache-2.0
// `litespark prepare`: files of text into tokenised shards, every Nth document held out, everything counted and hashed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/fields.h"
#include "data/shard_format.h"
#include "prepare/document_reader.h"
#include "token/known_pattern.h"
#include "token/tokenizer.h"

namespace litespark {

/// A DATA.toml.
struct PrepareConfig {
  struct Input {
    std::vector<std::string> paths;
    TextFormat format = TextFormat::kAuto;
    DocumentSplit split = DocumentSplit::kFile;
    std::string text_key = "text";
    void visit(Fields& fields);
  } input;
  struct TokenizerSection {
    std::string path;
    int64_t train_vocab_size = 0;  ///< learn a byte-level BPE of this size first; 0: `path` holds one
    token::KnownPattern pattern = token::KnownPattern::kLlama3;
    std::string append;   ///< token that ends every document; empty: none
    std::string prepend;  ///< token that begins every document; empty: none
    void visit(Fields& fields);
  } tokenizer;
  struct Output {
    std::string path;
    std::string eval_path;
    int64_t eval_every = 0;
    int64_t shard_tokens = int64_t{1} << 28;
    void visit(Fields& fields);
  } output;

  void visit(Fields& fields);
  /// Throws ConfigError for what is missing or contradictory.
  void validate() const;
};

struct PrepareReport {
  ShardDescription train;
  ShardDescription eval;  ///< without shards when nothing was held out
  double seconds = 0;
};

/// Throws ConfigError when there are too few documents for one to be held out.
void require_held_out(const PrepareConfig& config, int64_t num_documents);

/// Calls `body` with every document in order, and whether it is held out.
void for_each_document(const PrepareConfig& config,
                       const std::function<void(const std::string& text, bool is_held_out)>& body);

/// Told of file bytes read and of all input bytes.
using PrepareProgress = std::function<void(int64_t bytes_done, int64_t bytes_total)>;

/// Writes the shard folders. Throws ConfigError, DataError, IoError; then no folder appears.
PrepareReport prepare_data(
    const PrepareConfig& config, const PrepareProgress& progress = [](int64_t, int64_t) {});

}  // namespace litespark
