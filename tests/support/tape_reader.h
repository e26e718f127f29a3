// SPDX-License-Identifier: Apache-2.0
// What a test asks of a tape: its ops of one kind, their names in order, and the tensors that an op writes.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/program.h"

namespace litespark::test {

/// A program small enough to read, with every size different from the others.
inline ModelConfig small_config() {
  return {.vocab_size = 100,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .max_position_embeddings = 64};
}

inline ProgramOptions small_options() {
  return {.batch = {.num_tokens = 64, .max_documents = 4, .max_length = 32}, .head_chunk_rows = 24};
}

template <template <class> class Op>
std::vector<Op<TensorId>> ops_of(const Tape& tape) {
  std::vector<Op<TensorId>> found;
  for (const TapeEntry& entry : tape.entries()) {
    if (const auto* op = std::get_if<Op<TensorId>>(&entry.op)) found.push_back(*op);
  }
  return found;
}

/// Names of the ops that a layer has in scopes that start with `scope`, in order.
inline std::vector<std::string> names_of(const Tape& tape, std::string_view scope, int32_t layer) {
  std::vector<std::string> names;
  for (const TapeEntry& entry : tape.entries()) {
    if (entry.layer == layer && entry.scope.starts_with(scope)) names.emplace_back(op_name(entry.op));
  }
  return names;
}

/// Tensors that an op writes or updates.
inline std::vector<TensorId> written_by(const op::AnyOp<TensorId>& any) {
  struct Writes {
    std::vector<TensorId>& ids;
    TensorId keep(TensorId id) const {
      if (id.has_value()) ids.push_back(id);
      return id;
    }
    TensorId in(std::string_view, TensorId id) const { return id; }
    TensorId out(std::string_view, TensorId id) const { return keep(id); }
    TensorId inout(std::string_view, TensorId id) const { return keep(id); }
  };
  std::vector<TensorId> ids;
  std::visit([&](const auto& op) { op.map(Writes{ids}); }, any);
  return ids;
}

}  // namespace litespark::test
