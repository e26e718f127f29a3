// SPDX-License-Identifier: Apache-2.0
#include "dist/comm_call.h"

#include <functional>
#include <string_view>

#include "core/error.h"

namespace litespark::dist {
namespace {

std::string_view kind_name(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce: return "all_reduce";
    case CallKind::kReduceScatter: return "reduce_scatter";
    case CallKind::kAllGather: return "all_gather";
    case CallKind::kBroadcast: return "broadcast";
    case CallKind::kAllToAll: return "all_to_all";
    case CallKind::kExchange: return "exchange";
    case CallKind::kBarrier: return "barrier";
  }
  return "an unknown call";
}

bool is_reducing(CallKind kind) {
  return kind == CallKind::kAllReduce || kind == CallKind::kReduceScatter;
}

bool overlaps(const Tensor& a, const Tensor& b) {
  const auto* first_a = static_cast<const std::byte*>(a.data);
  const auto* first_b = static_cast<const std::byte*>(b.data);
  const std::less<> before;  // a total order, also for pointers into different arrays
  return a.bytes() > 0 && b.bytes() > 0 && before(first_a, first_b + b.bytes()) && before(first_b, first_a + a.bytes());
}

class Checker {
 public:
  Checker(const CommCall& call, const CallPlace& place) : call_(call), place_(place) {}

  void run() const {
    if (call_.kind == CallKind::kBarrier) return;
    if (call_.kind == CallKind::kExchange) return check_exchange();
    check_tensor("data", call_.data);
    if (is_reducing(call_.kind)) check_reducible(call_.data.dtype);
    if (call_.kind == CallKind::kBroadcast) check_rank("root", call_.root);
    if (call_.kind == CallKind::kReduceScatter || call_.kind == CallKind::kAllGather) check_shard();
    if (call_.kind == CallKind::kAllToAll) check_all_to_all();
  }

 private:
  std::string where() const { return place_.text() + ", " + std::string(kind_name(call_.kind)); }

  void check_tensor(std::string_view what, const Tensor& tensor) const {
    if (!tensor.has_value()) throw InternalError(where(), std::string(what) + " is absent");
    if (tensor.data == nullptr && tensor.bytes() > 0)
      throw InternalError(where(), std::string(what) + " has no memory");
    if (tensor.device != place_.device) {
      throw InternalError(where(), std::string(what) + " lives in the wrong place",
                          tensor.device == Device::kCpu ? "host memory" : "device memory",
                          place_.device == Device::kCpu ? "host memory" : "device memory");
    }
  }

  void check_reducible(DType dtype) const {
    if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF64)
      throw InternalError(where(), "dtype cannot be reduced", dtype_name(dtype), "f32, bf16 or f64");
  }

  void check_rank(std::string_view what, int rank) const {
    if (rank < 0 || rank >= place_.size)
      throw InternalError(where(), std::string(what) + " is no rank", rank, "0 to " + std::to_string(place_.size - 1));
  }

  void check_shard() const {
    check_tensor("the shard", call_.piece);
    if (call_.piece.dtype != call_.data.dtype) {
      throw InternalError(where(), "shard and data differ in dtype", dtype_name(call_.piece.dtype),
                          dtype_name(call_.data.dtype));
    }
    if (call_.piece.num_elements() * place_.size != call_.data.num_elements()) {
      throw InternalError(where(), "the shard is not one of equal pieces of the data",
                          call_.piece.shape.to_string() + " of " + call_.data.shape.to_string(),
                          "1/" + std::to_string(place_.size) + " of the data's elements");
    }
    if (overlaps(call_.piece, call_.data) && call_.piece.data != piece_of(call_.data, place_.rank, place_.size).data)
      throw InternalError(where(), "the shard overlaps the data and is not this rank's piece of it");
  }

  void check_all_to_all() const {
    check_tensor("what is sent", call_.piece);
    if (call_.piece.dtype != call_.data.dtype || call_.piece.num_elements() != call_.data.num_elements()) {
      throw InternalError(where(), "what is sent and received differ in dtype or size", call_.piece.shape.to_string(),
                          call_.data.shape.to_string());
    }
    if (call_.data.num_elements() % place_.size != 0) {
      throw InternalError(where(), "there are no equal pieces", call_.data.shape.to_string(),
                          "a multiple of " + std::to_string(place_.size) + " elements");
    }
    if (overlaps(call_.piece, call_.data)) throw InternalError(where(), "what is sent and received overlap");
  }

  void check_exchange() const {
    if (call_.sent.has_value()) {
      check_tensor("what is sent", call_.sent);
      check_rank("destination", call_.destination);
    }
    if (call_.received.has_value()) {
      check_tensor("what is received", call_.received);
      check_rank("source", call_.source);
    }
    if (overlaps(call_.sent, call_.received)) throw InternalError(where(), "what is sent and received overlap");
    const bool sends_to_itself = call_.sent.has_value() && call_.destination == place_.rank;
    const bool receives_from_itself = call_.received.has_value() && call_.source == place_.rank;
    if (sends_to_itself != receives_from_itself)
      throw InternalError(where(), "one half with this rank itself, the other not");
    if (sends_to_itself && !label_of_half(call_, call_.sent).is_same_call(label_of_half(call_, call_.received)))
      throw InternalError(where(), "what goes to this rank itself is not what it receives",
                          call_.sent.shape.to_string(), call_.received.shape.to_string());
  }

  const CommCall& call_;
  const CallPlace& place_;
};

}  // namespace

std::string CallPlace::text() const {
  return name + " rank " + std::to_string(rank) + " of " + std::to_string(size) +
         (group.empty() ? "" : " (" + group + ")");
}

std::string ranks_text(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t place = 0; place < ranks.size(); ++place) {
    if (place > 0) text += place + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[place]);
  }
  return text;
}

void check_call(const CommCall& call, const CallPlace& place) {
  Checker(call, place).run();
}

bool is_ordered_with(const CommCall& call, const CommCall& other) {
  if (call.kind == CallKind::kBarrier || other.kind == CallKind::kBarrier) return true;
  for (const Tensor* one : {&call.data, &call.piece, &call.received, &call.sent}) {
    for (const Tensor* another : {&other.data, &other.piece, &other.received, &other.sent}) {
      if (overlaps(*one, *another)) return true;
    }
  }
  return false;
}

Tensor piece_of(const Tensor& whole, int index, int count) {
  const int64_t elements = whole.num_elements() / count;
  Tensor piece = whole;
  piece.shape = Shape{elements};
  piece.data = static_cast<std::byte*>(whole.data) + index * elements * dtype_bytes(whole.dtype);
  return piece;
}

bool CallLabel::is_same_call(const CallLabel& other) const {
  return kind == other.kind && dtype == other.dtype && reduction == other.reduction && shape_rank == other.shape_rank &&
         root == other.root && extents == other.extents;
}

std::string CallLabel::what() const {
  std::string text(kind_name(kind));
  if (is_reducing(kind)) text += reduction == Reduction::kSum ? " (sum)" : " (max)";
  if (kind == CallKind::kBroadcast) text += " from rank " + std::to_string(root);
  if (shape_rank > 0) {
    text += " of " + std::string(dtype_name(dtype)) + " [";
    for (size_t i = 0; i < std::min<size_t>(shape_rank, extents.size()); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(extents[i]);
    text += "]";
  }
  return text;
}

std::string CallLabel::text() const {
  return what() + ", call " + std::to_string(number) + ", step " + std::to_string(step);
}

CallLabel label_of_half(const CommCall& call, const Tensor& half) {
  CallLabel label{.kind = call.kind,
                  .dtype = half.dtype,
                  .reduction = call.reduction,
                  .shape_rank = static_cast<uint8_t>(half.shape.rank()),
                  .root = call.root,
                  .number = call.number,
                  .step = call.step};
  for (int dim = 0; dim < half.shape.rank(); ++dim) label.extents[static_cast<size_t>(dim)] = half.shape[dim];
  return label;
}

CallLabel label_of(const CommCall& call) {
  return label_of_half(call, call.kind == CallKind::kExchange ? call.sent : call.data);
}

}  // namespace litespark::dist
