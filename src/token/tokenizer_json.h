// SPDX-License-Identifier: Apache-2.0
// The component nodes of a tokenizer.json, one reader a kind. Include from .cpp files only.
#pragma once

#include <vector>

#include "token/json_value.h"
#include "token/tokenizer_spec.h"

namespace litespark::token {

/// Append the node's steps, those of nested sequences in order. Throw DataError naming an unknown type.
void read_normalizer(const JsonValue& node, std::vector<NormalizerSpec>* steps);
void read_pre_tokenizer(const JsonValue& node, std::vector<PreTokenizerSpec>* steps);
void read_decoder(const JsonValue& node, std::vector<DecoderSpec>* steps);

/// Template of the node; a sequence may hold one component that adds tokens.
TemplateSpec read_post_processor(const JsonValue& node);

BpeSpec read_model(const JsonValue& node);

std::vector<AddedTokenSpec> read_added_tokens(const JsonValue& node);

}  // namespace litespark::token
