// SPDX-License-Identifier: Apache-2.0
// A tokenizer learned from the very text that is to be prepared, held-out documents left out.
#pragma once

#include "prepare/prepare.h"

namespace litespark {

/// Writes `config.tokenizer.path`/tokenizer.json as its train_vocab_size says. Throws ConfigError when there is one
/// already, IoError, DataError.
void train_tokenizer(const PrepareConfig& config);

}  // namespace litespark
