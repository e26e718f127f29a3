// SPDX-License-Identifier: Apache-2.0
#include "training_inputs.h"

#include "backend_choice.h"
#include "core/error.h"
#include "core/fields.h"
#include "data/shard_source.h"
#include "data/synthetic_source.h"
#include "data/text_source.h"
#include "io/file.h"

namespace litespark::cli {
namespace {

/// Larger texts belong into shards.
constexpr int64_t kLargestTextBytes = int64_t{4} << 30;

/// Keeps held-out synthetic tokens apart from the run's own.
constexpr uint64_t kEvalSeedOffset = uint64_t{1} << 63;

}  // namespace

void require_tokenizer(const ShardSet& shards, const std::filesystem::path& folder, const char* key) {
  const std::filesystem::path file = folder / "tokenizer.json";
  if (!is_present(file)) return;
  const std::string hash = hash_file(file);
  if (hash == shards.description().tokenizer_hash) return;
  throw ConfigError(key, "the shards were made with another tokenizer than " + file.string(),
                    shards.description().tokenizer_hash, hash);
}

void require_tokenizer_file(const RunConfig& config) {
  const std::string& folder = config.data.tokenizer;
  if (folder.empty() || is_present(std::filesystem::path(folder) / "tokenizer.json")) return;
  throw ConfigError("data.tokenizer", "holds no tokenizer.json", folder, "a folder with one");
}

void refuse_unsupported(const RunConfig& config) {
  RunConfig copy = config;
  const Fields fields = Fields::of(copy);
  const auto refuse = [&](const char* key, const char* expected) {
    throw ConfigError(key, "is not supported yet", value_text(*fields.find(key)), expected);
  };
  if (config.task != Task::kPretrain) refuse("task", "\"pretrain\"");
  if (config.train.eval_every > 0 && config.data.source == DataSource::kSynthetic && config.train.eval_batches == 0) {
    throw ConfigError("train.eval_batches", "synthetic data has no end", 0, "1 or more");
  }
}

std::unique_ptr<BatchSource> make_source(const RunConfig& config, const Program& program, const std::string& path) {
  const auto seed = static_cast<uint64_t>(config.seed);
  const BatchShape& shape = program.options.batch;
  const char* const key = path == config.data.path ? "data.path" : "data.eval_path";
  switch (config.data.source) {
    case DataSource::kSynthetic: return std::make_unique<SyntheticSource>(seed, program.config.vocab_size, shape);
    case DataSource::kText:
      return std::make_unique<TextSource>(read_text_file(path, kLargestTextBytes), seed, shape, key);
    case DataSource::kShards: break;
  }
  ShardSet shards = ShardSet::open(path);
  if (config.data.verify) shards.verify();
  if (!config.data.tokenizer.empty()) require_tokenizer(shards, config.data.tokenizer, "data.tokenizer");
  if (config.model.init == ModelInit::kFolder) require_tokenizer(shards, config.model.path, "data.path");
  if (shards.description().vocab_size > program.config.vocab_size) {
    throw ConfigError("data.path", "the shards' tokenizer has more ids than the model's vocabulary",
                      shards.description().vocab_size,
                      "at most vocab_size = " + std::to_string(program.config.vocab_size));
  }
  const bool is_stream = config.data.packing == Packing::kStream;
  return std::make_unique<ShardSource>(
      std::move(shards), ShardSource::Options{.shape = shape,
                                              .mode = is_stream ? PackingMode::kStream : PackingMode::kDocuments,
                                              .seed = seed,
                                              .is_shuffled = path == config.data.path,
                                              .key = key});
}

std::unique_ptr<BatchSource> make_eval_source(const RunConfig& config, const Program& program) {
  if (config.train.eval_every == 0) return nullptr;
  if (config.data.source != DataSource::kSynthetic) return make_source(config, program, config.data.eval_path);
  return std::make_unique<SyntheticSource>(static_cast<uint64_t>(config.seed) ^ kEvalSeedOffset,
                                           program.config.vocab_size, program.options.batch);
}

void fill_weights(Executor& executor, const RunConfig& config) {
  if (config.model.init == ModelInit::kScratch) {
    initialise_weights(executor, static_cast<uint64_t>(config.seed));
  } else {
    load_weights(executor, config.model.path);
  }
}

}  // namespace litespark::cli
