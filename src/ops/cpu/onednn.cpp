// SPDX-License-Identifier: Apache-2.0
// The only file that sees oneDNN. The two versions differ in how descriptions are made; execution goes through the C
// interface, which takes an array of arguments where the C++ one builds containers on each call.
#include "ops/cpu/onednn.h"

#include <omp.h>

#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"

namespace litespark::cpu {
namespace {

using dnnl::memory;

/// Row count that fixes the packed layout, whatever number of rows is multiplied later.
constexpr int64_t kCanonicalRows = 1024;

memory::data_type library_type(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc plain_matrix(int64_t rows, int64_t columns, DType dtype, bool transposed) {
  const memory::dims strides = transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
  return memory::desc({rows, columns}, library_type(dtype), strides);
}

struct Operands {
  memory::desc source, weights, destination, bias;
};

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Operands& operands, bool has_bias,
                                      bool accumulate) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops post_ops;
    post_ops.append_sum(1.0f);
    attributes.set_post_ops(post_ops);
  }
#if DNNL_VERSION_MAJOR >= 3
  if (has_bias) {
    return {engine, operands.source, operands.weights, operands.bias, operands.destination, attributes};
  }
  return {engine, operands.source, operands.weights, operands.destination, attributes};
#else
  if (has_bias) {
    return {{operands.source, operands.weights, operands.bias, operands.destination}, attributes, engine};
  }
  return {{operands.source, operands.weights, operands.destination}, attributes, engine};
#endif
}

/// The library bakes the thread count of the moment into a primitive; this sets it and puts the old one back.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    if (threads != before_) omp_set_num_threads(threads);
  }
  ~ThreadCount() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace

class Gemm {
 public:
  /// Library objects hold pointers only; one set a thread that may run the primitive.
  struct Slot {
    memory source, weights, destination, bias, scratch;
  };
  GemmProblem problem;
  dnnl::matmul primitive;
  memory::desc weights_desc;
  std::vector<Slot> slots;
  std::map<const void*, memory> packed;
};

/// A reorder between two addresses.
struct Onednn::Packing {
  dnnl::reorder primitive;
  memory source, destination;
};

struct Onednn::State {
  using PackKey = std::tuple<int64_t, int64_t, DType>;

  explicit State(int thread_count) : threads(thread_count), engine(dnnl::engine::kind::cpu, 0), stream(engine) {}

  int threads;
  dnnl::engine engine;
  dnnl::stream stream;
  std::map<GemmProblem, dnnl::matmul::primitive_desc> descriptions;
  std::map<GemmProblem, Gemm> gemms;
  std::map<GemmProblem, int64_t> scratch_bytes;
  std::map<PackKey, memory::desc> packed_descs;
  std::map<PackKey, bool> in_blocks;
  std::map<std::pair<PackKey, WeightLayout>, dnnl::reorder> reorders;
  std::map<std::tuple<PackKey, WeightLayout, const void*, const void*>, Packing> packings;

  const memory::desc& packed_desc(int64_t k, int64_t n, DType dtype) {
    const PackKey key{k, n, dtype};
    if (const auto found = packed_descs.find(key); found != packed_descs.end()) return found->second;
    const ThreadCount one(1);
    const Operands operands{.source = plain_matrix(kCanonicalRows, k, dtype, false),
                            .weights = memory::desc({k, n}, library_type(dtype), memory::format_tag::any),
                            .destination = plain_matrix(kCanonicalRows, n, dtype, false),
                            .bias = {}};
    return packed_descs.emplace(key, describe(engine, operands, false, false).weights_desc()).first->second;
  }

  const dnnl::matmul::primitive_desc& description(const GemmProblem& problem) {
    if (const auto found = descriptions.find(problem); found != descriptions.end()) return found->second;
    const ThreadCount count(problem.sequential ? 1 : threads);
    const Operands operands{
        .source = plain_matrix(problem.m, problem.k, problem.source, problem.source_transposed),
        .weights = problem.layout == WeightLayout::kPacked
                       ? packed_desc(problem.k, problem.n, problem.weights)
                       : plain_matrix(problem.k, problem.n, problem.weights, problem.layout != WeightLayout::kPlain),
        .destination = plain_matrix(problem.m, problem.n, problem.destination, false),
        .bias = memory::desc({1, problem.n}, memory::data_type::f32, memory::format_tag::ab)};
    try {
      return descriptions.emplace(problem, describe(engine, operands, problem.has_bias, problem.accumulate))
          .first->second;
    } catch (const dnnl::error& error) {
      throw InternalError("matmul", std::string("oneDNN refuses a product: ") + error.what(), problem.m, problem.k);
    }
  }
};

Onednn::Onednn(int threads) : state_(std::make_unique<State>(threads)) {
  constexpr int64_t kProbe = 512;
  const memory::desc f32 = state_->packed_desc(kProbe, kProbe, DType::kF32);
  has_blocked_f32_ =
      f32 != plain_matrix(kProbe, kProbe, DType::kF32, false) && f32 != plain_matrix(kProbe, kProbe, DType::kF32, true);
  try {
    const memory::desc bf16 = plain_matrix(kProbe, kProbe, DType::kBF16, false);
    const Operands operands{.source = bf16, .weights = bf16, .destination = bf16, .bias = {}};
    const auto description = describe(state_->engine, operands, false, false);
    const std::string_view implementation = description.impl_info_str();
    // Emulated products carry the name of a lesser instruction set or of the reference code.
    has_bf16_tiles_ = implementation.find("amx") != std::string_view::npos;
    has_fast_bf16_ = has_bf16_tiles_ || implementation.find("core_bf16") != std::string_view::npos ||
                     implementation.find("core_fp16") != std::string_view::npos ||
                     implementation.find("avx10") != std::string_view::npos;
  } catch (const dnnl::error&) {
    has_fast_bf16_ = false;
  }
}

Onednn::~Onednn() = default;

Gemm& Onednn::gemm(const GemmProblem& problem) {
  if (const auto found = state_->gemms.find(problem); found != state_->gemms.end()) return found->second;
  const auto& description = state_->description(problem);
  const ThreadCount count(problem.sequential ? 1 : state_->threads);
  Gemm made;
  made.problem = problem;
  made.primitive = dnnl::matmul(description);
  made.weights_desc = description.weights_desc();
  const size_t num_slots = problem.sequential ? static_cast<size_t>(state_->threads) : 1;
  const dnnl::engine& engine = state_->engine;
  for (size_t i = 0; i < num_slots; ++i) {
    made.slots.push_back({.source = memory(description.src_desc(), engine, nullptr),
                          .weights = memory(made.weights_desc, engine, nullptr),
                          .destination = memory(description.dst_desc(), engine, nullptr),
                          .bias = problem.has_bias ? memory(description.bias_desc(), engine, nullptr) : memory(),
                          .scratch = memory(description.scratchpad_desc(), engine, nullptr)});
  }
  return state_->gemms.emplace(problem, std::move(made)).first->second;
}

int64_t Onednn::scratch_bytes(const GemmProblem& problem) {
  const auto found = state_->scratch_bytes.find(problem);
  if (found != state_->scratch_bytes.end()) return found->second;
  const auto bytes = static_cast<int64_t>(state_->description(problem).scratchpad_desc().get_size());
  return state_->scratch_bytes.emplace(problem, bytes).first->second;
}

void Onednn::bind_packed(Gemm& gemm, const void* packed) {
  // One object an address: giving an object another address makes the library write zeros into the padding again.
  if (gemm.packed.contains(packed)) return;
  gemm.packed.emplace(packed, memory(gemm.weights_desc, state_->engine, const_cast<void*>(packed)));
}

bool Onednn::execute(Gemm& gemm, const GemmPointers& pointers) {
  Gemm::Slot& slot = gemm.slots[static_cast<size_t>(pointers.slot)];
  slot.source.set_data_handle(const_cast<void*>(pointers.source));
  slot.destination.set_data_handle(pointers.destination);
  slot.scratch.set_data_handle(pointers.scratch);
  dnnl_memory_t weights = slot.weights.get();
  if (gemm.problem.layout == WeightLayout::kPacked) {
    weights = gemm.packed.find(pointers.weights)->second.get();
  } else {
    slot.weights.set_data_handle(const_cast<void*>(pointers.weights));
  }
  std::array<dnnl_exec_arg_t, 5> arguments{{{DNNL_ARG_SRC, slot.source.get()},
                                            {DNNL_ARG_WEIGHTS, weights},
                                            {DNNL_ARG_DST, slot.destination.get()},
                                            {DNNL_ARG_SCRATCHPAD, slot.scratch.get()},
                                            {0, nullptr}}};
  int num_arguments = 4;
  if (gemm.problem.has_bias) {
    slot.bias.set_data_handle(const_cast<void*>(pointers.bias));
    arguments[4] = {DNNL_ARG_BIAS, slot.bias.get()};
    num_arguments = 5;
  }
  // Also for sequential products: a region of one thread does not count as parallel, and the library would fork.
  const ThreadCount count(gemm.problem.sequential ? 1 : state_->threads);
  const dnnl_status_t status =
      dnnl_primitive_execute(gemm.primitive.get(), state_->stream.get(), num_arguments, arguments.data());
  return status == dnnl_success;
}

int64_t Onednn::packed_bytes(int64_t k, int64_t n, DType dtype) {
  return static_cast<int64_t>(state_->packed_desc(k, n, dtype).get_size());
}

bool Onednn::is_packed_in_blocks(int64_t k, int64_t n, DType dtype) {
  const State::PackKey key{k, n, dtype};
  const auto found = state_->in_blocks.find(key);
  if (found != state_->in_blocks.end()) return found->second;
  const auto blocks = dtype == DType::kBF16 ? memory::format_tag::BA16a64b2a : memory::format_tag::BA16a64b;
  const bool is_known = state_->packed_desc(k, n, dtype) == memory::desc({k, n}, library_type(dtype), blocks);
  return state_->in_blocks.emplace(key, is_known).first->second;
}

Onednn::Packing& Onednn::packing(int64_t k, int64_t n, DType dtype, WeightLayout layout, const float* weight,
                                 void* packed) {
  const State::PackKey shape{k, n, dtype};
  const std::tuple key{shape, layout, static_cast<const void*>(weight), static_cast<const void*>(packed)};
  if (const auto found = state_->packings.find(key); found != state_->packings.end()) return found->second;
  const ThreadCount count(state_->threads);
  const memory::desc from = plain_matrix(k, n, DType::kF32, layout == WeightLayout::kTransposed);
  const memory::desc& to = state_->packed_desc(k, n, dtype);
  auto reorder = state_->reorders.find({shape, layout});
  if (reorder == state_->reorders.end()) {
    const dnnl::reorder::primitive_desc description(state_->engine, from, state_->engine, to);
    reorder = state_->reorders.emplace(std::pair{shape, layout}, dnnl::reorder(description)).first;
  }
  Packing made{.primitive = reorder->second,
               .source = memory(from, state_->engine, const_cast<float*>(weight)),
               .destination = memory(to, state_->engine, packed)};
  return state_->packings.emplace(key, std::move(made)).first->second;
}

void Onednn::prepare_pack(int64_t k, int64_t n, DType dtype, WeightLayout layout, const float* weight, void* packed) {
  packing(k, n, dtype, layout, weight, packed);
}

void Onednn::pack(int64_t k, int64_t n, DType dtype, WeightLayout layout, const float* weight, void* packed) {
  const Packing& found = packing(k, n, dtype, layout, weight, packed);
  const ThreadCount count(state_->threads);
  const std::array<dnnl_exec_arg_t, 2> arguments{
      {{DNNL_ARG_FROM, found.source.get()}, {DNNL_ARG_TO, found.destination.get()}}};
  if (dnnl_primitive_execute(found.primitive.get(), state_->stream.get(), 2, arguments.data()) != dnnl_success) {
    throw InternalError("pack_weight", "oneDNN failed to reorder a weight");
  }
}

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
}

}  // namespace litespark::cpu
