// SPDX-License-Identifier: Apache-2.0
#include "prepare/prepare.h"

#include <chrono>
#include <optional>

#include "core/error.h"
#include "core/threads.h"
#include "data/shard_writer.h"
#include "io/file.h"
#include "prepare/train_tokenizer.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

/// Text that is tokenised at a time, on all cores.
constexpr int64_t kBatchBytes = int64_t{8} << 20;

struct Document {
  std::string text;
  std::vector<int32_t> ids;
  const std::string* file = nullptr;
  int64_t number = 0;  ///< in its file, from 1
};

class Preparation {
 public:
  Preparation(const PrepareConfig& config, const PrepareProgress& progress)
      : config_(config),
        progress_(progress),
        tokenizer_(token::Tokenizer::load(config.tokenizer.path)),
        append_(required_token(config.tokenizer.append, "tokenizer.append")),
        prepend_(required_token(config.tokenizer.prepend, "tokenizer.prepend")) {
    for (const std::string& path : config.input.paths) bytes_total_ += InputFile(path).size();
    const ShardWriter::Options options{.tokenizer_hash = tokenizer_.hash(),
                                       .vocab_size = tokenizer_.vocabulary_size(),
                                       .max_shard_tokens = config.output.shard_tokens};
    train_.emplace(config.output.path, options);
    if (config.output.eval_every > 0) eval_.emplace(config.output.eval_path, options);
  }

  PrepareReport run() {
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& path : config_.input.paths) read_file(path);
    flush();
    require_held_out(config_, num_documents_);
    PrepareReport report{.train = train_->finish()};
    if (eval_) report.eval = eval_->finish();
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
  }

 private:
  std::optional<int32_t> required_token(const std::string& text, const char* key) const {
    if (text.empty()) return std::nullopt;
    const std::optional<int32_t> id = tokenizer_.token_to_id(text);
    if (!id) throw ConfigError(key, "is no token of the tokenizer", text, "one of its tokens");
    return id;
  }

  void read_file(const std::string& name) {
    const fs::path path = name;
    const int64_t bytes = InputFile(path).size();
    const SourceInfo source{.name = path.filename().string(), .hash = hash_file(path), .bytes = bytes};
    train_->add_source(source);
    if (eval_) eval_->add_source(source);
    DocumentReader reader(
        path, {.format = config_.input.format, .split = config_.input.split, .text_key = config_.input.text_key});
    Document document;
    for (int64_t number = 1; reader.next(document.text); ++number) {
      document.file = &name;
      document.number = number;
      batch_bytes_ += static_cast<int64_t>(document.text.size());
      batch_.push_back(std::move(document));
      document = {};
      if (batch_bytes_ < kBatchBytes) continue;
      flush();
      progress_(bytes_done_ + reader.file_bytes_read(), bytes_total_);
    }
    bytes_done_ += bytes;
    progress_(bytes_done_, bytes_total_);
  }

  void tokenize(Document& document) const {
    if (prepend_) document.ids.push_back(*prepend_);
    try {
      tokenizer_.encode_into(document.text, {}, &document.ids);
    } catch (const DataError& error) {
      throw DataError(*document.file + " document " + std::to_string(document.number), error.what());
    }
    if (append_) document.ids.push_back(*append_);
  }

  /// Tokenises on all cores, writes in the documents' order.
  void flush() {
    parallel_stretches(static_cast<int64_t>(batch_.size()), 1, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) tokenize(batch_[static_cast<size_t>(i)]);
    });
    for (const Document& document : batch_) {
      const bool is_held_out = eval_ && num_documents_ % config_.output.eval_every == config_.output.eval_every - 1;
      ShardWriter& writer = is_held_out ? *eval_ : *train_;
      writer.add(document.ids, static_cast<int64_t>(document.text.size()));
      ++num_documents_;
    }
    batch_.clear();
    batch_bytes_ = 0;
  }

  const PrepareConfig& config_;
  const PrepareProgress& progress_;
  token::Tokenizer tokenizer_;
  std::optional<int32_t> append_;
  std::optional<int32_t> prepend_;
  std::optional<ShardWriter> train_;
  std::optional<ShardWriter> eval_;
  std::vector<Document> batch_;
  int64_t batch_bytes_ = 0;
  int64_t num_documents_ = 0;
  int64_t bytes_done_ = 0;
  int64_t bytes_total_ = 0;
};

}  // namespace

void PrepareConfig::Input::visit(Fields& fields) {
  fields.add({.path = "paths", .value = &paths, .help = "Files of text or JSON lines, plain, gzip or zstd."});
  fields.add({.path = "format",
              .value = &format,
              .help = "auto: JSON lines when the first character is an opening brace.",
              .choices = {"auto", "text", "jsonl"}});
  fields.add({.path = "split",
              .value = &split,
              .help = "What a document of plain text is; a paragraph ends at a blank line.",
              .choices = {"file", "line", "paragraph"}});
  fields.add({.path = "text_key", .value = &text_key, .help = "Field of a JSON line that holds the text."});
}

void PrepareConfig::TokenizerSection::visit(Fields& fields) {
  fields.add({.path = "path", .value = &path, .help = "tokenizer.json, or the folder that holds it."});
  fields.add(
      {.path = "train_vocab_size",
       .value = &train_vocab_size,
       .help =
           "Learn a byte-level BPE of this many tokens from the input first and write it to path; 0: path holds one.",
       .unit = "tokens",
       .range = between(0, 1 << 24)});
  fields.add({.path = "pattern",
              .value = &pattern,
              .help = "How a learned tokenizer cuts text into words.",
              .choices = {"gpt2", "llama3", "qwen2"}});
  fields.add({.path = "append", .value = &append, .help = "Token that ends every document, counted in its length."});
  fields.add({.path = "prepend", .value = &prepend, .help = "Token that begins every document."});
}

void PrepareConfig::Output::visit(Fields& fields) {
  fields.add({.path = "path", .value = &path, .help = "Folder of shards to make."});
  fields.add({.path = "eval_path", .value = &eval_path, .help = "Folder for the documents held out."});
  fields.add({.path = "eval_every",
              .value = &eval_every,
              .help = "Every Nth document is held out; 0: none.",
              .unit = "documents",
              .range = at_least(0)});
  fields.add({.path = "shard_tokens",
              .value = &shard_tokens,
              .help = "Largest shard; a longer document makes a shard of its own.",
              .unit = "tokens",
              .range = at_least(1)});
}

void PrepareConfig::visit(Fields& fields) {
  fields.section("input", "What to read.", input);
  fields.section("tokenizer", "How to cut it into tokens.", tokenizer);
  fields.section("output", "Where to write.", output);
}

void PrepareConfig::validate() const {
  if (input.paths.empty()) throw ConfigError("input.paths", "is missing");
  if (tokenizer.path.empty()) throw ConfigError("tokenizer.path", "is missing");
  if (output.path.empty()) throw ConfigError("output.path", "is missing");
  if ((output.eval_every > 0) != !output.eval_path.empty()) {
    throw ConfigError("output.eval_path", "goes with output.eval_every: set both or neither");
  }
  if (output.eval_every == 1) {
    throw ConfigError("output.eval_every", "would hold out every document", 1, "0 (none) or 2 or more");
  }
  const auto folder = [](const std::string& path) { return (fs::absolute(path) / "").lexically_normal(); };
  if (output.eval_every == 0) return;
  const std::string train = folder(output.path).string();
  const std::string held_out = folder(output.eval_path).string();
  if (held_out.starts_with(train) || train.starts_with(held_out)) {
    throw ConfigError("output.eval_path", "and output.path lie in one another", output.eval_path,
                      "two folders beside each other");
  }
}

void require_held_out(const PrepareConfig& config, int64_t num_documents) {
  if (config.output.eval_every <= num_documents) return;
  throw ConfigError("output.eval_every", "is larger than the number of documents, so none would be held out",
                    config.output.eval_every, "at most " + std::to_string(num_documents));
}

void for_each_document(const PrepareConfig& config,
                       const std::function<void(const std::string& text, bool is_held_out)>& body) {
  int64_t number = 0;
  std::string text;
  for (const std::string& path : config.input.paths) {
    DocumentReader reader(
        path, {.format = config.input.format, .split = config.input.split, .text_key = config.input.text_key});
    while (reader.next(text)) {
      const int64_t every = config.output.eval_every;
      body(text, every > 0 && number % every == every - 1);
      ++number;
    }
  }
}

PrepareReport prepare_data(const PrepareConfig& config, const PrepareProgress& progress) {
  config.validate();
  if (config.tokenizer.train_vocab_size > 0) train_tokenizer(config);
  return Preparation(config, progress).run();
}

}  // namespace litespark
