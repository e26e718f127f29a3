// SPDX-License-Identifier: Apache-2.0
// What a training run starts from: batches, held-out batches, weights.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/batch_source.h"
#include "data/shard_set.h"
#include "model/weights.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// Throws ConfigError for settings of the run file that this version does not carry out.
void refuse_unsupported(const RunConfig& config);

/// Throws ConfigError when data.tokenizer is named and holds no tokenizer.json.
void require_tokenizer_file(const RunConfig& config);

/// Where `folder` holds a tokenizer.json, it must be that of the shards: ids would have other meanings. Throws
/// ConfigError for `key`.
void require_tokenizer(const ShardSet& shards, const std::filesystem::path& folder, const char* key);

/// `path` is data.path or data.eval_path; synthetic tokens need none.
std::unique_ptr<BatchSource> make_source(const RunConfig& config, const Program& program, const std::string& path);

/// nullptr when the run file asks for no evaluation. Synthetic held-out tokens come from another seed.
std::unique_ptr<BatchSource> make_eval_source(const RunConfig& config, const Program& program);

/// From the seed, or from the model's folder.
void fill_weights(Executor& executor, const RunConfig& config);

}  // namespace litespark::cli
