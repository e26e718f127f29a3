// SPDX-License-Identifier: Apache-2.0
// What one tensor-parallel rank holds of each parameter: whole heads of attention, rows or columns of the MLP, ids of
// the vocabulary, and all of what is small. Sizes are the same on every rank; what does not divide is padded with
// zeros, which stay zeros.
#pragma once

#include <algorithm>
#include <span>

#include "spec/param_table.h"

namespace litespark {

/// A rank among those that share one replica's weights.
struct TensorPlace {
  int64_t ranks = 1;
  int64_t rank = 0;
};

/// Of the last ranks, where a size does not divide.
inline constexpr int64_t kCutAlignment = 64;

/// Throws ConfigError naming cluster.tp for heads that so many ranks cannot share.
void require_cut(const ModelConfig& config, int64_t ranks);

/// The model's shape as one rank computes it: heads, F and V of a rank, with padding.
ModelConfig cut_model(const ModelConfig& config, int64_t ranks);

/// Ranks that hold a copy of the same key and value head: 1 unless there are more ranks than such heads.
int64_t copies_of_kv_heads(const ModelConfig& config, int64_t ranks);

/// The ids of one rank: [first, first + count); 0 of them when the vocabulary ends before.
struct HeldVocabulary {
  int64_t first = 0;
  int64_t count = 0;
};
HeldVocabulary held_vocabulary(const ModelConfig& config, const TensorPlace& place);

/// The rows of `whole`, in its order, as the rank stores them. With one rank `whole` itself.
ParamTable cut_param_table(const ParamTable& whole, const ModelConfig& config, const TensorPlace& place);

/// The stored values of a parameter from those of the whole one; padding becomes 0.
void cut_values(const ParamSpec& spec, std::span<const float> whole, std::span<float> stored);
/// Puts stored values where they belong in the whole parameter.
void join_values(const ParamSpec& spec, std::span<const float> stored, std::span<float> whole);
/// Calls body(first, whole_first, count) for stretches of stored elements within [begin, end) that lie behind one
/// another in the whole parameter too, at `whole_first`. Padding is left out.
template <class Body>
void for_cut_stretches(const ParamSpec& spec, int64_t begin, int64_t end, const Body& body) {
  if (!spec.cut) return body(begin, begin, end - begin);
  const ParamCut& cut = *spec.cut;
  const int64_t width = spec.shape.rank() == 2 ? spec.shape[1] : 1;
  const int64_t whole_width = spec.shape.rank() == 2 ? cut.whole[1] : 1;
  for (const ParamCut::Rows& rows : cut.rows) {
    for (int64_t row = 0; row < rows.count; ++row) {
      const int64_t start = (rows.to + row) * width;
      const int64_t first = std::max(begin, start);
      const int64_t last = std::min(end, start + cut.num_columns);
      if (first >= last) continue;
      body(first, (rows.from + row) * whole_width + cut.first_column + first - start, last - first);
    }
  }
}

}  // namespace litespark
