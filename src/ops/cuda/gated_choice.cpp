// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/gated_choice.h"

#include <algorithm>

#include "ops/cuda/gated_product.h"
#include "ops/cuda/matmul_plan.h"
#include "ops/cuda/temporary_memory.h"

namespace litespark::cuda {
namespace {

constexpr int kTurns = 3;
constexpr float kMilliseconds = 80.0f;  ///< of each way a turn; a third more before it is not counted

int64_t room_of(const Tensor& tensor) {
  return (tensor.bytes() + 255) / 256 * 256;
}

/// Adds up what the tensors of an op take.
struct RoomCounter {
  int64_t& bytes;
  Tensor in(std::string_view, const Tensor& tensor) const { return count(tensor); }
  Tensor out(std::string_view, const Tensor& tensor) const { return count(tensor); }
  Tensor inout(std::string_view, const Tensor& tensor) const { return count(tensor); }
  Tensor count(const Tensor& tensor) const {
    if (tensor.has_value()) bytes += room_of(tensor);
    return tensor;
  }
};

/// Puts the tensors of an op into memory of random values.
struct RandomPlacer {
  char*& next;
  uint32_t& seed;
  cudaStream_t stream;
  Tensor in(std::string_view, const Tensor& tensor) const { return place(tensor); }
  Tensor out(std::string_view, const Tensor& tensor) const { return place(tensor); }
  Tensor inout(std::string_view, const Tensor& tensor) const { return place(tensor); }
  Tensor place(Tensor tensor) const {
    if (!tensor.has_value()) return tensor;
    tensor.data = next;
    next += room_of(tensor);
    if (tensor.dtype != DType::kU8) fill_random(tensor.data, tensor.dtype, tensor.num_elements(), seed++, stream);
    return tensor;
  }
};

/// Milliseconds of one run in a row that lasts kMilliseconds.
float sustained_milliseconds(const std::function<void()>& run, cudaStream_t stream) {
  const Event start;
  const Event stop;
  const auto time_runs = [&](int repeats) {
    check(cudaEventRecord(start.get(), stream), "gated timing");
    for (int i = 0; i < repeats; ++i) run();
    check(cudaEventRecord(stop.get(), stream), "gated timing");
    check(cudaEventSynchronize(stop.get()), "gated timing");
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, start.get(), stop.get()), "gated timing");
    return elapsed / static_cast<float>(repeats);
  };
  const float estimate = std::max(time_runs(1), 1e-3f);
  const int repeats = std::max(1, static_cast<int>(kMilliseconds / estimate));
  time_runs(std::max(1, repeats / 3));
  return time_runs(repeats);
}

}  // namespace

std::string GatedChoices::key_of(std::string_view op, int64_t rows, int64_t depth, int64_t columns) const {
  return std::string(op) + " " + std::to_string(rows) + " x " + std::to_string(depth) + " -> " +
         std::to_string(columns) + ", " + context_.device_name;
}

std::string GatedChoices::key_of(const op::GatedForward<Tensor>& op) const {
  return key_of(op.kName, op.x.rows(), op.x.columns(), op.h.columns());
}

std::string GatedChoices::key_of(const op::GatedBackward<Tensor>& op) const {
  return key_of(op.kName, op.dout.rows(), op.dout.columns(), op.weight.columns());
}

bool GatedChoices::is_joined(const std::string& key) const {
  const auto found = choices_.find(key);
  return found != choices_.end() && found->second == "joined";
}

bool GatedChoices::is_joined(const op::GatedForward<Tensor>& op) const {
  return is_joined(key_of(op));
}

bool GatedChoices::is_joined(const op::GatedBackward<Tensor>& op) const {
  return is_joined(key_of(op));
}

template <class Op>
void GatedChoices::choose_way(const std::string& key, const Op& op, const GatedWays<Op>& ways) {
  if (choices_.contains(key)) return;
  std::string& choice = choices_[key];
  choice = "apart";
  if (const auto known = known_.find(key); known != known_.end()) {
    choice = known->second;
    return;
  }
  int64_t bytes = 0;
  static_cast<void>(op.map(RoomCounter{bytes}));
  const TemporaryMemory memory(bytes);
  if (memory.data() == nullptr) return;
  char* next = memory.data();
  uint32_t seed = 1;
  const Op placed = op.map(RandomPlacer{next, seed, context_.stream});
  float joined = 0;
  float apart = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    joined += sustained_milliseconds([&] { ways.joined(placed); }, context_.stream);
    apart += sustained_milliseconds([&] { ways.apart(placed); }, context_.stream);
  }
  if (joined < apart) choice = "joined";
}

void GatedChoices::choose(const op::GatedForward<Tensor>& op, const GatedWays<op::GatedForward<Tensor>>& ways) {
  choose_way(key_of(op), op, ways);
}

void GatedChoices::choose(const op::GatedBackward<Tensor>& op, const GatedWays<op::GatedBackward<Tensor>>& ways) {
  choose_way(key_of(op), op, ways);
}

}  // namespace litespark::cuda
