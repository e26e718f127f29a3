// SPDX-License-Identifier: Apache-2.0
// One table of parameters. Import, export, initialisation, checkpoints, optimizer groups and norms all iterate over it;
// nobody lists parameters a second time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"
#include "spec/model_config.h"

namespace litespark {

enum class ParamRole : uint8_t {
  kEmbedding,
  kAttentionNorm,
  kQkv,
  kQkvBias,
  kQueryNorm,
  kKeyNorm,
  kOutput,
  kOutputBias,
  kMlpNorm,
  kGateUp,
  kGateUpBias,
  kDown,
  kDownBias,
  kFinalNorm,
  kHead,
};

enum class ParamInit : uint8_t { kNormal, kOnes, kZeros };

/// A tensor of the Hugging Face folder: some rows of a stored parameter.
struct ParamPart {
  std::string write_name;               ///< the name we write
  std::vector<std::string> read_names;  ///< accepted names, the first found is taken
  int64_t first_row = 0;                ///< in the stored tensor's outermost dimension
  Shape shape;                          ///< as in the folder
};

/// Which part of a parameter a tensor-parallel rank stores (spec/param_cut.h).
struct ParamCut {
  /// Rows, or elements of a vector: `count` of the whole from `from` on, stored from `to` on.
  struct Rows {
    int64_t from = 0;
    int64_t to = 0;
    int64_t count = 0;
  };
  Shape whole;             ///< of the parameter in the model
  std::vector<Rows> rows;  ///< in stored order; what none of them names is padding
  int64_t first_column = 0;
  int64_t num_columns = 1;     ///< from there on; stored ones behind them are padding
  bool is_replicated = false;  ///< all ranks hold all of it, and each has a part of its gradient
  /// Stored elements, from the first on, that count for the global norm: over all ranks each of the model's once.
  int64_t num_counted = 0;
};

struct ParamSpec {
  std::string name;  ///< ours, dotted: "layers.3.qkv"
  ParamRole role = ParamRole::kEmbedding;
  int64_t layer = -1;            ///< -1 outside the blocks
  Shape shape;                   ///< as stored
  std::vector<ParamPart> parts;  ///< cover the stored rows, in order; none where `cut` says what is stored
  ParamInit init = ParamInit::kNormal;
  double init_std = 0.02;
  bool is_decayed = false;  ///< weight decay applies (tensors of two or more dimensions)
  /// Start within the flat master, gradient and moment tensors, in elements; a multiple of kFlatAlignment. Flat order
  /// is the order in which backward finishes gradients. Buckets of several ranks have places of their own.
  int64_t flat_offset = 0;
  std::optional<ParamCut> cut;  ///< with several tensor-parallel ranks
  /// A copy that the global norm does not count: that of a tied embedding on the last pipeline stage.
  bool is_counted_elsewhere = false;

  bool is_matrix() const { return shape.rank() == 2; }
};

/// Elements; 256 bytes of f32.
inline constexpr int64_t kFlatAlignment = 64;

struct ParamTable {
  std::vector<ParamSpec> params;  ///< forward order: embedding, blocks, final norm, head
  int64_t flat_size = 0;          ///< elements of the flat tensors, padding included
  int64_t num_parameters = 0;     ///< without padding; a tied head counts once

  /// Index of the parameter with this role in this layer, if the model has it.
  std::optional<int64_t> find(ParamRole role, int64_t layer = -1) const;
  /// Sets what follows from the shapes: flat offsets and both sizes.
  void assign_places();
};

/// Tied heads: only the embedding is listed; the loader looks at `lm_head.weight` itself.
ParamTable make_param_table(const ModelConfig& config);

}  // namespace litespark
