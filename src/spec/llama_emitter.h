// SPDX-License-Identifier: Apache-2.0
// Writes a Llama's phases onto tapes. The forward block reads like the diagram, the backward block like its mirror;
// recomputation is the forward block written again, so it cannot differ from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "spec/communication_tape.h"
#include "spec/param_cut.h"

namespace litespark {

/// What a forward block leaves for its backward. A field is absent when a recompute option dropped it.
struct BlockActivations {
  TensorId input;             ///< [N, C] residual stream entering the block
  TensorId attention_normed;  ///< [N, C]
  TensorId attention_rstd;    ///< [N]
  TensorId qkv_projected;     ///< [N, (H + 2 K) D] before the head norms; only with them
  TensorId head_rstd;         ///< [N, H + K]; only with head norms
  TensorId qkv;               ///< [N, (H + 2 K) D] rotated
  TensorId attended;          ///< [N, H D]
  TensorId log_sum_exp;       ///< [H, N]
  TensorId middle;            ///< [N, C] residual stream between attention and MLP
  TensorId mlp_normed;        ///< [N, C]
  TensorId mlp_rstd;          ///< [N]
  TensorId gate_up;           ///< [N, 2 F]
  TensorId hidden;            ///< [N, F]
  TensorId delta;             ///< [N, C] what the MLP adds to the stream; the next norm adds it
  /// 8-bit copies of the linear layers' inputs, [features, N], where forward made them.
  TensorId attention_normed_transposed, attended_transposed, mlp_normed_transposed, hidden_transposed;
};

/// What the final norm leaves for its backward, and the head's gradient at its output (absent without training).
struct HeadActivations {
  TensorId input;            ///< [N, C] the whole stream
  TensorId rstd;             ///< [N]
  TensorId normed;           ///< [N, C]
  TensorId normed_gradient;  ///< [N, C]
};

class LlamaEmitter {
 public:
  /// `batch`: ids and positions that the tape reads; attention is packed documents, or, without offsets, a cache.
  LlamaEmitter(Program& program, const BackendSizes& sizes, Tape& tape, const BatchTensors& batch, bool accumulate);

  /// From here on block inputs go to Program::offloaded in forward and come back in backward. Needs Recompute::kBlock.
  void offload_inputs() { offloads_ = true; }
  /// Where several ranks train: weights are waited for in front of each block, gradients reduced behind it. What
  /// tensor-parallel ranks tell each other inside a block needs no asking.
  struct Meetings {
    bool gathers_weights = false;
    bool reduces_gradients = false;
    bool is_first =
        true;  ///< of the step's micro-batches: with ProgramOptions::shards_gradients others add to its pieces
  };
  void meet_ranks(const Meetings& meetings) { meetings_ = meetings; }
  /// What a pipeline stage works on in one go; without stages all of the model.
  struct Chunk {
    StageLayers layers;
    bool begins_model = true;  ///< the embedding comes before it
    bool begins_stage = true;  ///< of the stage's chunks the first in forward and the last in backward
  };
  void take_chunk(const Chunk& chunk) { chunk_ = chunk; }
  /// From here on the blocks' linear layers multiply 8-bit copies. Needs ProgramOptions::fp8.
  void use_fp8();
  /// From here on attention's forward reads 8-bit floats. Needs ProgramOptions::fp8_attention.
  void use_fp8_attention();
  /// Gathers of weights that meet_ranks asked for, in front of whatever comes first.
  void start_gathers();
  /// Embedding and all blocks; of a chunk its own blocks, from the stream [N, C] that arrived where it does not begin
  /// the model.
  std::vector<BlockActivations> forward_blocks(TensorId arrived = {});
  /// The stream [N, C] behind a chunk's last block, for the next stage.
  TensorId leaving_stream(const BlockActivations& last);
  /// Final norm, then for each chunk of rows: logits, loss, and with `training` their gradients.
  HeadActivations head_and_loss(const BlockActivations& last, bool training);
  /// From the head's gradient back to the embedding, recomputing what the options say. Returns the gradient [N, C] of
  /// the stream that the first block read, for the stage before.
  TensorId backward(const std::vector<BlockActivations>& blocks, const HeadActivations& head);
  /// The same from the gradient of leaving_stream, which is overwritten.
  TensorId backward(const std::vector<BlockActivations>& blocks, TensorId arrived);
  /// Final norm and the head, all rows, into Program::logits.
  void all_logits(const BlockActivations& last);
  /// Final norm and the head for each sequence's last row, into the generation's logits.
  void last_logits(const BlockActivations& last, int64_t sequences);

 private:
  struct Linear {
    size_t param = 0;  ///< row of the table
    TensorId weight, packed_forward, packed_backward, bias, gradient, bias_gradient;
    bool has_bias = false;  ///< on some rank: where outputs are summed over ranks, the first one adds it
    int64_t in_features = 0;
    int64_t out_features = 0;
  };
  /// The residual gradient as it travels down; `cast` is `stream` itself when both dtypes agree.
  struct ResidualGradient {
    TensorId stream, cast;
  };
  struct NormBackward {
    ParamRole role;
    int64_t layer;
    TensorId x, rstd, dy;
    TensorId abs_max;  ///< raised to the new gradient's largest magnitude
    bool first = false;
  };
  /// One of a block's four linear layers.
  struct BlockLinear {
    ParamRole weight, bias;
    Fp8Site input, gradient;
    std::string_view forward_scope, backward_scope;
    std::string_view output, input_gradient;  ///< names of tensors
    bool sums_ranks;  ///< its input is cut between tensor-parallel ranks, so its outputs are parts of a sum
  };
  static constexpr BlockLinear kQkvLinear{ParamRole::kQkv,
                                          ParamRole::kQkvBias,
                                          Fp8Site::kQkvInput,
                                          Fp8Site::kQkvGradient,
                                          "forward.qkv",
                                          "backward.qkv",
                                          "qkv",
                                          "attention_normed_gradient",
                                          false};
  static constexpr BlockLinear kOutputLinear{ParamRole::kOutput,
                                             ParamRole::kOutputBias,
                                             Fp8Site::kOutputInput,
                                             Fp8Site::kOutputGradient,
                                             "forward.output",
                                             "backward.output",
                                             "output",
                                             "attended_gradient",
                                             true};
  static constexpr BlockLinear kGateUpLinear{ParamRole::kGateUp,
                                             ParamRole::kGateUpBias,
                                             Fp8Site::kGateUpInput,
                                             Fp8Site::kGateUpGradient,
                                             "forward.gate_up",
                                             "backward.gate_up",
                                             "gate_up",
                                             "mlp_normed_gradient",
                                             false};
  static constexpr BlockLinear kDownLinear{ParamRole::kDown,
                                           ParamRole::kDownBias,
                                           Fp8Site::kDownInput,
                                           Fp8Site::kDownGradient,
                                           "forward.down",
                                           "backward.down",
                                           "down",
                                           "hidden_gradient",
                                           true};
  struct Fp8Copies {
    TensorId copy, transposed;
    const Fp8Slot* slot = nullptr;
  };
  struct CopiesWanted {
    bool copy, transposed;
  };
  /// Rows on their way between tensor-parallel ranks, a call a stretch; none with one rank.
  struct RowsUnderWay {
    TensorId whole;  ///< [N, C]
    TensorId own;    ///< [N / R, C]: of each stretch this rank's part; `whole` itself with one rank
    std::vector<TensorCall> calls;
  };
  struct OutputGradient {
    TensorId values;    ///< [N, features]
    TensorId own;       ///< of them, the rows that this rank has from the stream; all of them otherwise
    RowsUnderWay rows;  ///< in which `values` arrive
    Fp8Copies copies;   ///< with 8-bit matmuls
  };
  struct KeptInput {
    TensorId values, transposed;
  };
  /// Of attention in parts: of this rank's queries [N, H D], and those of its keys and values on their way home.
  struct PartGradients {
    TensorId queries;
    ContextCall keys_values;
  };

  struct HeadChunk {
    int64_t first, count;
    TensorId normed, logits, losses, log_sum_exp, labels, normed_gradient;
    TensorId statistics;  ///< [R, rows, op::kRowStatistics], of a vocabulary that is cut
  };

  // llama_forward.cpp
  void attention_norm(BlockActivations& block, int64_t layer, TensorId stream, TensorId delta);
  void project_and_rotate(BlockActivations& block, int64_t layer);
  /// Of the queries and keys of `qkv`, by the positions of the batch.
  op::Rope<TensorId> rotation(TensorId qkv) const;
  void norm_heads(BlockActivations& block, int64_t layer);
  void attend(BlockActivations& block, int64_t layer);
  void attend_fp8(BlockActivations& block, int64_t layer);
  void attend_to_cache(BlockActivations& block, int64_t layer);
  TensorId project_output(BlockActivations& block, int64_t layer);
  void mlp_norm(BlockActivations& block, int64_t layer, TensorId stream, TensorId delta);
  void gate_and_up(BlockActivations& block, int64_t layer);
  void activate(BlockActivations& block, int64_t layer);
  void gate_up_and_activate(BlockActivations& block, int64_t layer);
  void project_down(BlockActivations& block, int64_t layer);
  /// All of a block, and what goes on from it, or all but the last product.
  BlockActivations forward_block(int64_t layer, TensorId stream, TensorId delta, bool goes_on = true);
  HeadActivations final_norm(const BlockActivations& last);

  // llama_head.cpp
  Linear head();
  void head_chunk(const Linear& linear, const HeadChunk& chunk, bool training);

  // llama_offload.cpp
  bool is_offloaded(int64_t layer) const;
  void store_input(const std::vector<BlockActivations>& blocks, int64_t layer);
  TensorId fetch_input(int64_t layer);
  void await_input(BlockActivations& block, int64_t layer, TensorId fetched);

  // llama_tensor_ranks.cpp
  bool has_tensor_peers() const { return program_.options.tensor_ranks > 1; }
  /// Rows of the residual stream that this rank keeps and normalises.
  int64_t stream_rows() const { return num_tokens() / program_.options.tensor_ranks; }
  TensorPlace tensor_place() const {
    return {.ranks = program_.options.tensor_ranks, .rank = program_.options.tensor_rank};
  }
  int64_t num_stretches() const;
  TensorId stretch_of(TensorId rows, int64_t stretch);
  TensorCall stretch_call(TensorId filled, TensorId read);
  RowsUnderWay start_gather(TensorId own);
  RowsUnderWay sum_of(TensorId parts);
  void start_sum(RowsUnderWay& rows, int64_t stretch);
  void await_stretch(const RowsUnderWay& rows, int64_t stretch);
  void await_rows(const RowsUnderWay& rows);
  TensorId gather_rows(TensorId own);
  TensorId sum_rows(TensorId parts);
  TensorId look_up_embedding();
  TensorId statistics_of(TensorId room, int64_t count);
  void join_loss(const HeadChunk& chunk, bool training);
  void sum_copies(int64_t layer);
  void sum_copies_of(ParamRole role, int64_t layer);

  // llama_context_ranks.cpp
  bool has_context_peers() const { return program_.options.context_ranks > 1; }
  op::ContextPart part_of_step(int64_t step) const;
  TensorId own_keys_values(const BlockActivations& block, int64_t layer);
  ContextCall pass_on(TensorId sent, const std::string& name);
  void attend_in_parts(BlockActivations& block, int64_t layer);
  PartGradients backward_attention_parts(const BlockActivations& block, int64_t layer, TensorId dattended);
  void join_part_gradients(const PartGradients& parts, TensorId dqkv);

  // llama_ranks.cpp
  void await_weights(int64_t layer);
  bool is_added_up(const Bucket& bucket) const;
  TensorId whole_gradient(const Bucket& bucket);
  void clear_gaps(const Bucket& bucket, TensorId whole);
  TensorId gradient_of(ParamRole role, int64_t layer);
  void reduce(const Bucket& bucket);
  void reduce_bucket(std::string_view name);
  void reduce_with(ParamRole role, int64_t layer);
  int64_t layer_elements() const;
  void finish_reductions(int64_t most = 0);

  // llama_backward.cpp
  BlockActivations recomputed(const BlockActivations& kept, int64_t layer);
  std::vector<BlockActivations> recomputed_segment(const std::vector<BlockActivations>& blocks, int64_t first,
                                                   int64_t last);
  void backward_block(const BlockActivations& block, int64_t layer, const ResidualGradient& gradient);
  void backward_mlp(const BlockActivations& block, int64_t layer, const ResidualGradient& gradient);
  void backward_down_and_swiglu(const BlockActivations& block, int64_t layer, const OutputGradient& ddown);
  void backward_attention(const BlockActivations& block, int64_t layer, const ResidualGradient& gradient);
  void rotate_back(int64_t layer, TensorId dqkv);
  void backward_head_norms(const BlockActivations& block, int64_t layer, TensorId dqkv);
  void backward_norm(const NormBackward& norm, const ResidualGradient& gradient);
  void backward_embedding(const ResidualGradient& gradient);
  ResidualGradient gradient_of_head(const HeadActivations& head);
  TensorId backward_blocks(const std::vector<BlockActivations>& blocks, const ResidualGradient& gradient);

  // llama_linear.cpp
  const Fp8Slot& fp8_slot(Fp8Site site, int64_t layer) const;
  /// In backward, computed a second time: what forward measured of it holds.
  bool is_recomputed(Fp8Site site) const { return !is_gradient(site) && !stage_.empty(); }
  /// Whether the op that makes a tensor can leave its largest magnitude.
  bool is_measured_by_producer(Fp8Site site) const;
  /// Where the op that makes a tensor leaves its largest magnitude; absent where nobody asks for it.
  TensorId abs_max_for_producer(Fp8Site site, int64_t layer) const;
  Fp8Copies quantize(Fp8Site site, int64_t layer, TensorId x, const CopiesWanted& wanted);
  void push_scaled_matmul(op::ScaledMatmul<TensorId> product);
  /// y; `transposed` receives what backward keeps of x with 8-bit matmuls.
  TensorId project(const BlockLinear& kind, int64_t layer, TensorId x, TensorId& transposed);
  OutputGradient output_gradient(const BlockLinear& kind, int64_t layer, TensorId dy);
  TensorId project_rows(const Linear& linear, const BlockLinear& kind, TensorId x, const std::string& name);
  RowsUnderWay input_gradient_rows(const Linear& linear, const BlockLinear& kind, const OutputGradient& dy,
                                   const std::string& name);
  TensorId project_backward_input(const BlockLinear& kind, int64_t layer, const OutputGradient& dy);
  void weight_is_finished(const BlockLinear& kind, int64_t layer);
  void project_backward_weight(const BlockLinear& kind, int64_t layer, const OutputGradient& dy, const KeptInput& x);
  TensorId project_backward(const BlockLinear& kind, int64_t layer, const OutputGradient& dy, const KeptInput& x);

  // llama_emitter.cpp
  Linear linear(ParamRole weight, std::optional<ParamRole> bias, int64_t layer);
  TensorId packed_copy(const Linear& linear, op::PackForm form);
  void linear_forward_into(const Linear& linear, TensorId x, TensorId y);
  void linear_backward_input_into(const Linear& linear, TensorId dy, TensorId dx);
  void linear_backward_weight(const Linear& linear, TensorId dy, TensorId x, bool accumulate);
  void linear_backward_bias(const Linear& linear, TensorId dy, bool accumulate);
  const ParamTensors& param(ParamRole role, int64_t layer) const;
  TensorId temporary(const std::string& name, DType dtype, Shape shape, Owner owner = Owner::kActivations);
  TensorId scratch(int64_t bytes);
  /// Whether the MLP's products have SwiGLU inside.
  bool joins_swiglu(int64_t layer);
  op::AttentionShape attention_shape(int64_t layer) const;
  LinearShape linear_shape(const Linear& linear, int64_t rows) const;
  std::string layer_name(int64_t layer, std::string_view name) const;
  /// Where activations of a layer stand among those of the chunk's blocks.
  size_t place_of(int64_t layer) const { return static_cast<size_t>(layer - chunk_.layers.first); }
  int64_t num_tokens() const { return program_.tensors[batch_.ids].shape[0]; }
  bool casts_residual() const { return program_.options.residual != program_.options.compute; }

  Program& program_;
  const ModelConfig& config_;  ///< as this rank computes it
  const BackendSizes& sizes_;
  Tape& tape_;
  BatchTensors batch_;
  bool accumulate_;
  bool offloads_ = false;
  Chunk chunk_;
  Meetings meetings_;
  bool has_started_gathers_ = false;
  std::vector<TensorId> whole_gradients_;    ///< of this tape, a bucket each; absent until something writes there
  std::vector<BucketReduction> reductions_;  ///< under way
  int num_tensor_calls_ = 0;                 ///< of this tape so far
  int num_context_calls_ = 0;                ///< the same
  bool uses_fp8_ = false;
  bool uses_fp8_attention_ = false;
  std::string stage_;  ///< part of tensor names: tells a recomputed tensor from the first one
};

}  // namespace litespark
