// SPDX-License-Identifier: Apache-2.0
// Which attention runs: our Hopper forward where it is the faster one, cuDNN's plans for other bf16 batches of equal
// documents, our own kernels for everything else. The choice depends on shape, library and options alone, so that
// scratch sizes, both directions and resumed runs agree.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>

#include "core/op/attention.h"
#include "core/op/attention_fp8.h"
#include "core/tensor.h"
#include "ops/cuda/attention_cudnn.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/cuda_backend.h"

namespace litespark::cuda {

/// Two numbers in device memory that kernels leave as they find them: 0.
class Tickets {
 public:
  explicit Tickets(const DeviceContext& context);
  ~Tickets();
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;
  int32_t* data() const { return static_cast<int32_t*>(data_); }

 private:
  void* data_ = nullptr;
};

class AttentionLibrary {
 public:
  AttentionLibrary(const DeviceContext& context, const CudaOptions& options);

  /// Bytes of scratch; builds the library's plan when there is one.
  int64_t scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens, DType compute, bool backward);

  /// Whether that library is loaded at all.
  bool has_cudnn() const { return sdpa_.library != nullptr; }

  /// Builds the plans of both directions.
  void prepare(const op::AttentionForward<Tensor>& op);
  void prepare(const op::AttentionForwardFp8<Tensor>& op);
  void prepare(const op::AttentionBackward<Tensor>& op);

  void run(const op::AttentionForward<Tensor>& op);
  /// Whether run() leaves the largest magnitude of what it writes; cuDNN's does not.
  bool measures(const op::AttentionForward<Tensor>& op);
  /// Whether run() rotates queries and keys itself, where the op has angles; else it must get them rotated.
  bool rotates(const op::AttentionForward<Tensor>& op);
  void run(const op::AttentionBackward<Tensor>& op);
  /// Whether run() rotates gradients back and leaves the largest magnitude of them: our Hopper kernels do.
  bool rotates_back(const op::AttentionBackward<Tensor>& op);
  /// The Hopper kernel, whatever is asked for, beside the backward of the same shape in the dtype of `out`.
  void run(const op::AttentionForwardFp8<Tensor>& op);

  /// The same of parts that context ranks share, for `num_rows` rows of a rank: our own kernels, whatever is asked for;
  /// those for Hopper where there are any, unless the portable ones are asked for.
  int64_t part_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows, DType compute, bool backward) const;
  void run(const op::AttentionPartForward<Tensor>& op);
  void run(const op::AttentionPartBackward<Tensor>& op);

  /// What runs for every op that was prepared or has run: direction and shape -> "cudnn 9.19.0", "hopper" or
  /// "portable", with the reason where there is one.
  std::map<std::string, std::string> choices() const;
  /// Earlier choices, for example of a checkpoint: they are kept to where that is possible. Comes before sizes are
  /// asked for.
  void set_choices(const std::map<std::string, std::string>& choices);

 private:
  enum class Pass : uint8_t { kForward, kForwardFp8, kBackward };
  /// Everything that a choice depends on.
  struct Request {
    int num_heads, num_kv_heads, head_dim, window;
    float scale;
    int max_documents, max_length;
    bool uniform, has_alibi;
    op::HeadGates gates;
    int64_t num_tokens;
    DType compute;
    Pass pass;

    auto operator<=>(const Request&) const = default;
    std::string name() const;
  };
  struct Choice {
    std::optional<SdpaKey> plan = std::nullopt;  ///< nothing: our own kernels
    bool hopper = false;                         ///< those for Hopper's own instructions
    std::string text;                            ///< what runs, and why
    bool has_op = false;  ///< else it was asked for because of its scratch or its layout of statistics alone
  };

  /// Decided at the first request, while no graph is being captured; the same from then on.
  Choice& choose(const op::AttentionShape& shape, int64_t num_tokens, DType compute, Pass pass);
  /// Likewise for an op.
  const Choice& choose_for_op(const op::AttentionShape& shape, int64_t num_tokens, DType compute, Pass pass);
  Choice decide(const Request& request);
  /// Whether there are kernels for Hopper's own instructions at all, and whether parts take them.
  bool has_hopper(int head_dim, DType compute, bool backward) const;
  bool has_hopper_part(const op::AttentionShape& shape, DType compute, bool backward) const;
  bool is_faster_on_hopper(const Request& request) const;
  /// Empty when cuDNN's plan can be used.
  std::string why_not_cudnn(const Request& request, const SdpaKey& key) const;
  AttentionArguments arguments_of(const op::AttentionShape& shape, int64_t num_tokens, DType compute);

  const DeviceContext& context_;
  AttentionKind kind_;
  int64_t max_scratch_bytes_;
  Tickets tickets_;  ///< of the Hopper forward
  SdpaOpening sdpa_;
  std::map<Request, Choice> choices_;
  std::map<std::string, std::string> preset_;
};

}  // namespace litespark::cuda
