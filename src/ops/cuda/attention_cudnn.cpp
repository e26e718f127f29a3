// SPDX-License-Identifier: Apache-2.0
// cuDNN's scaled-dot-product attention through its graph API, straight on the packed [N, (H + 2 K) D] tensor: q, k and
// v are strided views, so nothing is copied or transposed. The shared library is opened at run time.
#include "ops/cuda/attention_cudnn.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <initializer_list>
#include <map>
#include <unordered_map>

#include "core/error.h"

namespace cudnn_frontend {
/// Where the frontend's headers look up the library's entry points.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace litespark::cuda {
namespace {

namespace fe = cudnn_frontend;
using TensorAttributes = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : int64_t { kQuery = 1, kKey, kValue, kOut, kStats, kGradOut, kGradQuery, kGradKey, kGradValue };

void check_graph(fe::error_t status, const char* what) {
  if (status.is_bad()) throw DeviceError("attention_cudnn", std::string(what) + ": " + status.get_message());
}

void check_library(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw DeviceError("attention_cudnn", std::string(what) + ": " + fe::detail::get_error_string(status));
  }
}

/// A [B, heads, T, D] view of rows that are `row_elements` apart.
TensorAttributes head_view(fe::graph::Graph& graph, const SdpaKey& key, Uid uid, int heads, int64_t row_elements) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(uid)
                          .set_dim({key.batch, heads, key.length, key.head_dim})
                          .set_stride({key.length * row_elements, key.head_dim, row_elements, 1}));
}

void set_output_view(const TensorAttributes& tensor, const SdpaKey& key, Uid uid, int heads, int64_t row_elements) {
  tensor->set_output(true)
      .set_uid(uid)
      .set_dim({key.batch, heads, key.length, key.head_dim})
      .set_stride({key.length * row_elements, key.head_dim, row_elements, 1});
}

std::vector<int64_t> stats_dim(const SdpaKey& key) {
  return {key.batch, key.num_heads, key.length, 1};
}

std::vector<int64_t> stats_stride(const SdpaKey& key) {
  return {int64_t{key.num_heads} * key.length, key.length, 1, 1};
}

int64_t packed_row(const SdpaKey& key) {
  return int64_t{key.num_heads + 2 * key.num_kv_heads} * key.head_dim;
}

void describe_forward(fe::graph::Graph& graph, const SdpaKey& key) {
  const int64_t row = packed_row(key);
  auto attributes = fe::graph::SDPA_attributes()
                        .set_name("attention_forward")
                        .set_generate_stats(true)
                        .set_attn_scale(key.scale)
                        .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                        .set_diagonal_band_right_bound(0);
  if (key.window > 0) attributes.set_diagonal_band_left_bound(key.window);
  auto [out, stats] =
      graph.sdpa(head_view(graph, key, kQuery, key.num_heads, row), head_view(graph, key, kKey, key.num_kv_heads, row),
                 head_view(graph, key, kValue, key.num_kv_heads, row), attributes);
  set_output_view(out, key, kOut, key.num_heads, int64_t{key.num_heads} * key.head_dim);
  stats->set_output(true)
      .set_uid(kStats)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim(stats_dim(key))
      .set_stride(stats_stride(key));
}

void describe_backward(fe::graph::Graph& graph, const SdpaKey& key) {
  const int64_t row = packed_row(key);
  const int64_t out_row = int64_t{key.num_heads} * key.head_dim;
  auto attributes = fe::graph::SDPA_backward_attributes()
                        .set_name("attention_backward")
                        .set_attn_scale(key.scale)
                        .set_deterministic_algorithm(key.deterministic)
                        .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                        .set_diagonal_band_right_bound(0);
  if (key.window > 0) attributes.set_diagonal_band_left_bound(key.window);
  auto stats = graph.tensor(fe::graph::Tensor_attributes()
                                .set_uid(kStats)
                                .set_data_type(fe::DataType_t::FLOAT)
                                .set_dim(stats_dim(key))
                                .set_stride(stats_stride(key)));
  auto [dq, dk, dv] = graph.sdpa_backward(
      head_view(graph, key, kQuery, key.num_heads, row), head_view(graph, key, kKey, key.num_kv_heads, row),
      head_view(graph, key, kValue, key.num_kv_heads, row), head_view(graph, key, kOut, key.num_heads, out_row),
      head_view(graph, key, kGradOut, key.num_heads, out_row), stats, attributes);
  set_output_view(dq, key, kGradQuery, key.num_heads, row);
  set_output_view(dk, key, kGradKey, key.num_kv_heads, row);
  set_output_view(dv, key, kGradValue, key.num_kv_heads, row);
}

struct Plan {
  std::unique_ptr<fe::graph::Graph> graph;  ///< null: the library has no plan for this key
  int64_t workspace_bytes = 0;
};

class CudnnLibrary final : public SdpaLibrary {
 public:
  explicit CudnnLibrary(cudnnHandle_t handle) : handle_(handle) {}
  ~CudnnLibrary() override {
    plans_.clear();
    fe::detail::destroy_handle(handle_);
  }
  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;

  std::string name() const override {
    const size_t version = fe::detail::get_backend_version();
    return "cudnn " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }

  std::optional<int64_t> workspace_bytes(const SdpaKey& key) override {
    const Plan& plan = plan_of(key);
    if (!plan.graph) return std::nullopt;
    return plan.workspace_bytes;
  }

  void forward(cudaStream_t stream, const SdpaKey& key, const op::AttentionForward<Tensor>& op) override {
    auto pointers = qkv_pointers(key, op.qkv.data, {kQuery, kKey, kValue});
    pointers[kOut] = op.out.data;
    pointers[kStats] = op.log_sum_exp.data;
    execute(stream, key, pointers, op.scratch);
  }

  void backward(cudaStream_t stream, const SdpaKey& key, const op::AttentionBackward<Tensor>& op) override {
    auto pointers = qkv_pointers(key, op.qkv.data, {kQuery, kKey, kValue});
    pointers.merge(qkv_pointers(key, op.dqkv.data, {kGradQuery, kGradKey, kGradValue}));
    pointers[kOut] = op.out.data;
    pointers[kGradOut] = op.dout.data;
    pointers[kStats] = op.log_sum_exp.data;
    execute(stream, key, pointers, op.scratch);
  }

 private:
  using Pointers = std::unordered_map<int64_t, void*>;

  /// The three views of a packed bf16 tensor start at head 0, head H and head H + K of row 0.
  static Pointers qkv_pointers(const SdpaKey& key, void* packed, std::array<Uid, 3> uids) {
    auto* base = static_cast<char*>(packed);
    const int64_t head_bytes = 2 * int64_t{key.head_dim};
    return {{uids[0], base},
            {uids[1], base + key.num_heads * head_bytes},
            {uids[2], base + (key.num_heads + key.num_kv_heads) * head_bytes}};
  }

  const Plan& plan_of(const SdpaKey& key) {
    if (auto found = plans_.find(key); found != plans_.end()) return found->second;
    auto graph = std::make_unique<fe::graph::Graph>();
    graph->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (key.backward) {
      describe_backward(*graph, key);
    } else {
      describe_forward(*graph, key);
    }
    Plan plan;
    if (graph->build(handle_, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_good()) {
      check_graph(graph->get_workspace_size(plan.workspace_bytes), "workspace size");
      plan.graph = std::move(graph);
    }
    return plans_.emplace(key, std::move(plan)).first->second;
  }

  void execute(cudaStream_t stream, const SdpaKey& key, Pointers& pointers, const Tensor& scratch) {
    const Plan& plan = plan_of(key);
    const int64_t scratch_bytes = scratch.has_value() ? scratch.bytes() : 0;
    if (!plan.graph || scratch_bytes < plan.workspace_bytes) {
      throw InternalError("attention_cudnn", "scratch too small", scratch_bytes, plan.workspace_bytes);
    }
    check_library(fe::detail::set_stream(handle_, stream), "set stream");
    check_graph(plan.graph->execute(handle_, pointers, scratch.data), key.backward ? "backward" : "forward");
  }

  cudnnHandle_t handle_;
  std::map<SdpaKey, Plan> plans_;
};

/// The first of `names` that opens; stays open for the life of the process. The frontend then finds it by its name.
void* open_first(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
  }
  return nullptr;
}

}  // namespace

SdpaOpening open_sdpa_library() {
  if (open_first({LITESPARK_CUDART_PATH, "libcudart.so.13", "libcudart.so.12"}) == nullptr) {
    return {.library = nullptr, .reason = "no shared CUDA runtime for cuDNN"};
  }
  if (fe::cudnn_dlhandle == nullptr) fe::cudnn_dlhandle = open_first({LITESPARK_CUDNN_PATH, "libcudnn.so.9"});
  if (fe::cudnn_dlhandle == nullptr) return {.library = nullptr, .reason = "libcudnn.so.9 is not installed"};
  cudnnHandle_t handle = nullptr;
  if (const auto status = fe::detail::create_handle(&handle); status != CUDNN_STATUS_SUCCESS) {
    return {.library = nullptr, .reason = std::string("cudnnCreate: ") + fe::detail::get_error_string(status)};
  }
  return {.library = std::make_unique<CudnnLibrary>(handle), .reason = {}};
}

}  // namespace litespark::cuda
