// SPDX-License-Identifier: Apache-2.0
// Here host and device are one memory: plain copies, done when they return. For tests of the tape; the program refuses
// to offload on a CPU.
#include <cstring>

#include "ops/cpu/cpu_backend_impl.h"

namespace litespark::cpu {

void CpuBackend::run(const op::OffloadStore<Tensor>& op) {
  std::memcpy(op.host.data, op.device.data, static_cast<size_t>(op.device.bytes()));
}

void CpuBackend::run(const op::OffloadFetch<Tensor>& op) {
  std::memcpy(op.device.data, op.host.data, static_cast<size_t>(op.device.bytes()));
}

void CpuBackend::run(const op::OffloadWait<Tensor>&) {}

}  // namespace litespark::cpu
