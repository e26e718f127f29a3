// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/attention.h"

#include "core/backend_sizes.h"
#include "core/checked.h"
#include "core/error.h"
#include "ops/cuda/attention_fp8.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/heuristics/attention_choice.h"
#include "ops/cuda/heuristics/attention_gradient.h"

namespace litespark::cuda {
namespace {

/// Rows of the delta that the portable backward keeps in its scratch.
int64_t delta_bytes(const op::AttentionShape& shape, int64_t num_tokens) {
  return round_up(int64_t{4} * shape.num_heads * num_tokens, 256);
}

int64_t hopper_gradient_bytes(const op::AttentionShape& shape, int64_t num_tokens) {
  return gradient_scratch(num_tokens, shape.num_heads, shape.head_dim).bytes;
}

/// " off=1,3": heads that are off; empty for none.
std::string off_text(const op::HeadGates& gates, int num_heads) {
  std::string text;
  for (int head = 0; head < num_heads; ++head) {
    if (!gates.is_on(head)) text += (text.empty() ? " off=" : ",") + std::to_string(head);
  }
  return text;
}

int64_t device_bytes() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "attention");
  return static_cast<int64_t>(total_bytes);
}

}  // namespace

Tickets::Tickets(const DeviceContext& context) {
  constexpr size_t kBytes = 2 * sizeof(int32_t);
  check(cudaMalloc(&data_, kBytes), "attention");
  check(cudaMemsetAsync(data_, 0, kBytes, context.stream), "attention");
}
Tickets::~Tickets() {
  cudaFree(data_);
}

AttentionLibrary::AttentionLibrary(const DeviceContext& context, const CudaOptions& options)
    : context_(context),
      kind_(options.attention),
      max_scratch_bytes_(options.max_attention_scratch_bytes),
      tickets_(context) {
  if (max_scratch_bytes_ == 0) max_scratch_bytes_ = device_bytes() / 8;
  if (options.attention == AttentionKind::kPortable) return;
  sdpa_ = open_sdpa_library();
  if (!sdpa_.library && options.attention == AttentionKind::kCudnn) {
    throw ConfigError("attention", "cuDNN is not usable: " + sdpa_.reason);
  }
}

std::string AttentionLibrary::Request::name() const {
  const char* const direction = pass == Pass::kBackward     ? "attention_backward"
                                : pass == Pass::kForwardFp8 ? "attention_forward_fp8"
                                                            : "attention_forward";
  return std::string(direction) + " n=" + std::to_string(num_tokens) + " h=" + std::to_string(num_heads) +
         " k=" + std::to_string(num_kv_heads) + " d=" + std::to_string(head_dim) + " t=" + std::to_string(max_length) +
         (window > 0 ? " window=" + std::to_string(window) : "") + (has_alibi ? " alibi" : "") +
         off_text(gates, num_heads) + (uniform ? " uniform " : " ") + std::string(dtype_name(compute));
}

std::map<std::string, std::string> AttentionLibrary::choices() const {
  std::map<std::string, std::string> result;
  for (const auto& [request, choice] : choices_) {
    if (choice.has_op) result[request.name()] = choice.text;
  }
  return result;
}

void AttentionLibrary::set_choices(const std::map<std::string, std::string>& choices) {
  preset_ = choices;
  choices_.clear();
}

AttentionLibrary::Choice AttentionLibrary::decide(const Request& request) {
  if (request.pass == Pass::kForwardFp8) return {.hopper = true, .text = "hopper"};
  if (kind_ == AttentionKind::kPortable) return {.text = "portable (asked for)"};
  if (request.has_alibi) return {.text = "portable (ALiBi)"};
  const bool is_backward = request.pass == Pass::kBackward;
  const bool has_hopper = this->has_hopper(request.head_dim, request.compute, is_backward);
  if (kind_ == AttentionKind::kHopper && has_hopper) return {.hopper = true, .text = "hopper"};
  const auto preset = preset_.find(request.name());
  const std::string earlier = preset == preset_.end() ? "" : preset->second;
  if (earlier.starts_with("portable")) return {.text = "portable (as before)"};
  if (earlier.starts_with("hopper") && has_hopper) return {.hopper = true, .text = "hopper (as before)"};
  const bool may_be_hopper = kind_ == AttentionKind::kAuto && has_hopper;
  if (may_be_hopper && earlier.empty() && request.uniform && is_faster_on_hopper(request)) {
    return {.hopper = true, .text = "hopper"};
  }
  const SdpaKey key{.batch = request.max_documents,
                    .length = request.max_length,
                    .num_heads = request.num_heads,
                    .num_kv_heads = request.num_kv_heads,
                    .head_dim = request.head_dim,
                    .window = request.window < request.max_length ? request.window : 0,
                    .scale = request.scale,
                    .backward = is_backward,
                    .deterministic = is_backward && context_.deterministic};
  const std::string obstacle = why_not_cudnn(request, key);
  if (obstacle.empty()) return {.plan = key, .text = sdpa_.library->name()};
  if (may_be_hopper) return {.hopper = true, .text = "hopper (" + obstacle + ")"};
  return {.text = "portable (" + obstacle + ")"};
}

bool AttentionLibrary::is_faster_on_hopper(const Request& request) const {
  if (request.pass == Pass::kForward) return hopper_forward_is_faster(request.head_dim, request.max_length);
  op::AttentionShape shape;
  shape.head_dim = request.head_dim;
  return gpu_prefers_own_attention_gradient(shape);
}

std::string AttentionLibrary::why_not_cudnn(const Request& request, const SdpaKey& key) const {
  if (!sdpa_.library) return sdpa_.reason;
  if (request.compute != DType::kBF16) return "not bf16";
  if (!request.uniform) return "documents of several lengths";
  if (request.gates.any_off()) return "heads that are off";
  const std::optional<int64_t> bytes = sdpa_.library->workspace_bytes(key);
  if (!bytes) return "no cuDNN plan";
  if (*bytes > max_scratch_bytes_) return "cuDNN wants " + std::to_string(*bytes) + " bytes of scratch";
  return "";
}

AttentionLibrary::Choice& AttentionLibrary::choose(const op::AttentionShape& shape, int64_t num_tokens, DType compute,
                                                   Pass pass) {
  const Request request{.num_heads = shape.num_heads,
                        .num_kv_heads = shape.num_kv_heads,
                        .head_dim = shape.head_dim,
                        .window = shape.window,
                        .scale = shape.scale,
                        .max_documents = shape.max_documents,
                        .max_length = shape.max_length,
                        .uniform = shape.uniform,
                        .has_alibi = shape.has_alibi,
                        .gates = shape.gates,
                        .num_tokens = num_tokens,
                        .compute = compute,
                        .pass = pass};
  const auto known = choices_.find(request);
  if (known != choices_.end()) return known->second;
  return choices_.emplace(request, decide(request)).first->second;
}

const AttentionLibrary::Choice& AttentionLibrary::choose_for_op(const op::AttentionShape& shape, int64_t num_tokens,
                                                                DType compute, Pass pass) {
  Choice& choice = choose(shape, num_tokens, compute, pass);
  choice.has_op = true;
  return choice;
}

int64_t AttentionLibrary::scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens, DType compute,
                                        bool backward) {
  const Choice& choice = choose(shape, num_tokens, compute, backward ? Pass::kBackward : Pass::kForward);
  if (choice.plan) return *sdpa_.library->workspace_bytes(*choice.plan);
  if (!backward) return 0;
  return choice.hopper ? hopper_gradient_bytes(shape, num_tokens) : delta_bytes(shape, num_tokens);
}

AttentionArguments AttentionLibrary::arguments_of(const op::AttentionShape& shape, int64_t num_tokens, DType compute) {
  // Where the library runs one direction of a shape, both directions use its layout of the statistics.
  const bool forward = choose(shape, num_tokens, compute, Pass::kForward).plan.has_value();
  const bool backward = choose(shape, num_tokens, compute, Pass::kBackward).plan.has_value();
  const bool by_document = forward || backward;
  const int64_t length = shape.max_length;
  return {.stats = {.head_stride = by_document ? length : num_tokens,
                    .document_stride = shape.num_heads * length,
                    .by_document = by_document},
          .num_tokens = static_cast<int>(num_tokens),
          .num_heads = shape.num_heads,
          .num_kv_heads = shape.num_kv_heads,
          .head_dim = shape.head_dim,
          .window = shape.window,
          .scale = shape.scale,
          .max_documents = shape.max_documents,
          .uniform_length = shape.uniform ? shape.max_length : 0,
          .has_alibi = shape.has_alibi,
          .gates = shape.gates};
}

void AttentionLibrary::prepare(const op::AttentionForward<Tensor>& op) {
  choose_for_op(op.shape, op.qkv.rows(), op.qkv.dtype, Pass::kForward);
  arguments_of(op.shape, op.qkv.rows(), op.qkv.dtype);
}

void AttentionLibrary::prepare(const op::AttentionForwardFp8<Tensor>& op) {
  choose_for_op(op.shape, op.out.rows(), op.out.dtype, Pass::kForwardFp8);
  arguments_of(op.shape, op.out.rows(), op.out.dtype);
}

void AttentionLibrary::prepare(const op::AttentionBackward<Tensor>& op) {
  choose_for_op(op.shape, op.qkv.rows(), op.qkv.dtype, Pass::kBackward);
  arguments_of(op.shape, op.qkv.rows(), op.qkv.dtype);
}

void AttentionLibrary::run(const op::AttentionForward<Tensor>& op) {
  const int64_t num_tokens = op.qkv.rows();
  const Choice& choice = choose_for_op(op.shape, num_tokens, op.qkv.dtype, Pass::kForward);
  if (choice.plan) return sdpa_.library->forward(context_.stream, *choice.plan, op);
  clear_off_heads(op.shape, op.out, context_);
  clear_off_statistics(op.shape, op.log_sum_exp, context_);
  if (op.shape.gates.num_on(0, op.shape.num_heads) == 0) return;
  AttentionArguments arguments = arguments_of(op.shape, num_tokens, op.qkv.dtype);
  arguments.qkv = op.qkv.data;
  arguments.out = op.out.data;
  arguments.log_sum_exp = op.log_sum_exp.as<float>();
  arguments.abs_max = op.abs_max.has_value() ? op.abs_max.as<float>() : nullptr;
  arguments.angles = RotaryAngles::of(op.table, op.positions);
  arguments.offsets = op.offsets.as<int32_t>();
  arguments.num_documents = op.num_documents.as<int32_t>();
  arguments.tickets = tickets_.data();
  if (choice.hopper) return launch_attention_forward_hopper(arguments, context_);
  launch_attention_forward(arguments, op.qkv.dtype, context_);
}

bool AttentionLibrary::measures(const op::AttentionForward<Tensor>& op) {
  return !choose(op.shape, op.qkv.rows(), op.qkv.dtype, Pass::kForward).plan;
}

bool AttentionLibrary::rotates(const op::AttentionForward<Tensor>& op) {
  return hopper_forward_rotates(op.shape.head_dim) &&
         choose(op.shape, op.qkv.rows(), op.qkv.dtype, Pass::kForward).hopper;
}

void AttentionLibrary::run(const op::AttentionBackward<Tensor>& op) {
  const int64_t num_tokens = op.qkv.rows();
  const Choice& choice = choose_for_op(op.shape, num_tokens, op.qkv.dtype, Pass::kBackward);
  if (choice.plan) return sdpa_.library->backward(context_.stream, *choice.plan, op);
  const int64_t scratch_bytes = op.scratch.has_value() ? op.scratch.bytes() : 0;
  const int64_t needed =
      choice.hopper ? hopper_gradient_bytes(op.shape, num_tokens) : delta_bytes(op.shape, num_tokens);
  if (scratch_bytes < needed) throw InternalError(op.kName, "scratch too small", scratch_bytes, needed);
  clear_off_gradients(op.shape, op.dqkv, context_);
  if (op.shape.gates.num_on(0, op.shape.num_heads) == 0) return;
  AttentionArguments arguments = arguments_of(op.shape, num_tokens, op.qkv.dtype);
  arguments.qkv = op.qkv.data;
  arguments.out = op.out.data;
  arguments.log_sum_exp = op.log_sum_exp.as<float>();
  arguments.dout = op.dout.data;
  arguments.dqkv = op.dqkv.data;
  arguments.offsets = op.offsets.as<int32_t>();
  arguments.num_documents = op.num_documents.as<int32_t>();
  if (choice.hopper) {
    arguments.angles = RotaryAngles::of(op.table, op.positions);
    arguments.abs_max = op.abs_max.has_value() ? op.abs_max.as<float>() : nullptr;
    return launch_attention_backward_hopper(arguments, op.scratch.data, context_);
  }
  arguments.delta = static_cast<float*>(op.scratch.data);
  launch_attention_backward(arguments, op.qkv.dtype, context_);
}

bool AttentionLibrary::rotates_back(const op::AttentionBackward<Tensor>& op) {
  return choose(op.shape, op.qkv.rows(), op.qkv.dtype, Pass::kBackward).hopper;
}

void AttentionLibrary::run(const op::AttentionForwardFp8<Tensor>& op) {
  const int64_t num_tokens = op.out.rows();
  if (num_tokens == 0) return;
  if (!has_fp8_forward(op.shape, context_) || op.out.dtype != DType::kBF16) {
    throw InternalError(op.kName, "has no kernel for these heads on this device", op.shape.head_dim,
                        "heads of 128 in bf16 on a Hopper GPU");
  }
  choose_for_op(op.shape, num_tokens, op.out.dtype, Pass::kForwardFp8);
  clear_off_heads(op.shape, op.out, context_);
  clear_off_statistics(op.shape, op.log_sum_exp, context_);
  if (op.shape.gates.num_on(0, op.shape.num_heads) == 0) return;
  AttentionArguments arguments = arguments_of(op.shape, num_tokens, op.out.dtype);
  arguments.out = op.out.data;
  arguments.log_sum_exp = op.log_sum_exp.as<float>();
  arguments.abs_max = op.abs_max.has_value() ? op.abs_max.as<float>() : nullptr;
  arguments.offsets = op.offsets.as<int32_t>();
  arguments.num_documents = op.num_documents.as<int32_t>();
  arguments.tickets = tickets_.data();
  launch_attention_forward_fp8(
      arguments, {.queries_keys = op.queries_keys.data, .values = op.values.data, .scale = op.scale.as<float>()},
      context_);
}

bool AttentionLibrary::has_hopper(int head_dim, DType compute, bool backward) const {
  return backward ? attention_has_hopper_backward(head_dim, compute, context_)
                  : attention_has_hopper_forward(head_dim, compute, context_);
}

bool AttentionLibrary::has_hopper_part(const op::AttentionShape& shape, DType compute, bool backward) const {
  return kind_ != AttentionKind::kPortable && !shape.has_alibi && has_hopper(shape.head_dim, compute, backward);
}

int64_t AttentionLibrary::part_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows, DType compute,
                                             bool backward) const {
  if (!backward) return 0;
  return has_hopper_part(shape, compute, true) ? hopper_gradient_bytes(shape, num_rows) : delta_bytes(shape, num_rows);
}

void AttentionLibrary::run(const op::AttentionPartForward<Tensor>& op) {
  if (op.qkv.rows() == 0) return;
  AttentionArguments arguments = part_arguments(op);
  arguments.merged = op.out.as<float>();
  arguments.tickets = tickets_.data();
  // Three times as fast as the portable kernel where whole attention was measured; and a part has no third way.
  if (has_hopper_part(op.shape, op.qkv.dtype, false)) return launch_attention_forward_hopper(arguments, context_);
  launch_attention_forward(arguments, op.qkv.dtype, context_);
}

void AttentionLibrary::run(const op::AttentionPartBackward<Tensor>& op) {
  if (op.qkv.rows() == 0) return;
  const int64_t scratch_bytes = op.scratch.has_value() ? op.scratch.bytes() : 0;
  const int64_t needed = part_scratch_bytes(op.shape, op.qkv.rows(), op.qkv.dtype, true);
  if (scratch_bytes < needed) throw InternalError(op.kName, "scratch too small", scratch_bytes, needed);
  AttentionArguments arguments = part_arguments(op);
  arguments.out = op.out.data;
  arguments.dout = op.dout.data;
  arguments.dqueries = op.dqueries.as<float>();
  arguments.dkeys_values = op.dkeys_values.as<float>();
  if (has_hopper_part(op.shape, op.qkv.dtype, true)) {
    return launch_attention_backward_hopper(arguments, op.scratch.data, context_);
  }
  arguments.delta = static_cast<float*>(op.scratch.data);
  launch_attention_backward(arguments, op.qkv.dtype, context_);
}

void AttentionLibraryDeleter::operator()(AttentionLibrary* library) const {
  delete library;
}

AttentionLibraryPtr make_attention_library(const DeviceContext& context, const CudaOptions& options) {
  return AttentionLibraryPtr(new AttentionLibrary(context, options));
}

void CudaBackend::run(const op::AttentionForward<Tensor>& op) {
  if (op.qkv.rows() == 0) return;
  if (op.table.has_value() && !attention_->rotates(op)) {
    check(cudaMemcpyAsync(op.rotated.data, op.qkv.data, static_cast<size_t>(op.qkv.bytes()), cudaMemcpyDeviceToDevice,
                          context_.stream),
          op.kName);
    run(op::rotation_of(op, op.rotated, false));
    op::AttentionForward<Tensor> on_copy = op;
    on_copy.qkv = op.rotated;
    on_copy.table = on_copy.positions = on_copy.rotated = {};
    return run(on_copy);
  }
  attention_->run(op);
  if (op.abs_max.has_value() && !attention_->measures(op)) {
    run(op::AbsMax<Tensor>{.abs_max = op.abs_max, .column_abs_max = {}, .x = op.out});
  }
}

void CudaBackend::run(const op::AttentionBackward<Tensor>& op) {
  if (op.qkv.rows() == 0) return;
  attention_->run(op);
  if (attention_->rotates_back(op)) return;
  if (op.table.has_value()) return run(op::rotation_of(op, op.dqkv, true));
  if (op.abs_max.has_value()) {
    run(op::AbsMax<Tensor>{.abs_max = op.abs_max, .column_abs_max = {}, .x = op.dqkv});
  }
}

void CudaBackend::run(const op::AttentionForwardFp8<Tensor>& op) {
  attention_->run(op);
}

void CudaBackend::run(const op::AttentionPartForward<Tensor>& op) {
  attention_->run(op);
}

void CudaBackend::run(const op::AttentionPartBackward<Tensor>& op) {
  attention_->run(op);
}

}  // namespace litespark::cuda
