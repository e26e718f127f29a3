// SPDX-License-Identifier: Apache-2.0
// One entry for all contract checks: the op's own (file named after it), and that all its tensors are on one device.
#include <string>
#include <variant>

#include "core/error.h"
#include "ops/backend.h"
#include "ops/op_check.h"

namespace litespark {
namespace {

/// Visits an op's tensors through its `map` and remembers the first device.
class SameDevice {
 public:
  explicit SameDevice(std::string_view op) : op_(op) {}

  Tensor in(std::string_view name, const Tensor& tensor) { return see(name, tensor); }
  Tensor out(std::string_view name, const Tensor& tensor) { return see(name, tensor); }
  Tensor inout(std::string_view name, const Tensor& tensor) { return see(name, tensor); }

 private:
  static std::string_view name_of(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

  Tensor see(std::string_view name, const Tensor& tensor) {
    if (!tensor.has_value()) return tensor;
    if (seen_ && tensor.device != device_) {
      throw InternalError(op_, std::string(name) + " is on another device than the op's first tensor",
                          name_of(tensor.device), name_of(device_));
    }
    seen_ = true;
    device_ = tensor.device;
    return tensor;
  }

  std::string_view op_;
  bool seen_ = false;
  Device device_ = Device::kCpu;
};

}  // namespace

void validate(const op::AnyOp<Tensor>& op) {
  std::visit(
      [](const auto& concrete) {
        check_contract(concrete);
        static_cast<void>(concrete.map(SameDevice(concrete.kName)));
      },
      op);
}

}  // namespace litespark
