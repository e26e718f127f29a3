// SPDX-License-Identifier: Apache-2.0
// Whether a product with SwiGLU inside is made in one kernel or in two ops: by shape, as timed once on this device.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/op/gated.h"
#include "core/tensor.h"
#include "ops/cuda/device_context.h"

namespace litespark::cuda {

/// How the two kinds run, on tensors that a timing brings.
template <class Op>
struct GatedWays {
  std::function<void(const Op&)> joined, apart;
};

class GatedChoices {
 public:
  explicit GatedChoices(const DeviceContext& context) : context_(context) {}

  /// False where nothing was chosen: one kernel is only used where it was seen to be faster.
  bool is_joined(const op::GatedForward<Tensor>& op) const;
  bool is_joined(const op::GatedBackward<Tensor>& op) const;

  /// Times both on random data of the op's shapes and keeps the faster, unless a choice is known. They take turns for
  /// long enough that the power limit holds both down. Where the device has no room for the operands they are made
  /// apart.
  void choose(const op::GatedForward<Tensor>& op, const GatedWays<op::GatedForward<Tensor>>& ways);
  void choose(const op::GatedBackward<Tensor>& op, const GatedWays<op::GatedBackward<Tensor>>& ways);

  /// "gated_forward 16384 x 3072 -> 8192, NVIDIA H200" -> "joined" or "apart".
  std::map<std::string, std::string> tuning() const { return choices_; }
  void set_tuning(const std::map<std::string, std::string>& choices) { known_ = choices; }

 private:
  template <class Op>
  void choose_way(const std::string& key, const Op& op, const GatedWays<Op>& ways);
  std::string key_of(std::string_view op, int64_t rows, int64_t depth, int64_t columns) const;
  std::string key_of(const op::GatedForward<Tensor>& op) const;
  std::string key_of(const op::GatedBackward<Tensor>& op) const;
  bool is_joined(const std::string& key) const;

  const DeviceContext& context_;
  std::map<std::string, std::string> known_;    ///< from elsewhere
  std::map<std::string, std::string> choices_;  ///< in use
};

}  // namespace litespark::cuda
