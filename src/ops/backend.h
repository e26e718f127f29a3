// SPDX-License-Identifier: Apache-2.0
// What a device must be able to do: own memory, move bytes, run the closed set of ops. One implementation a device;
// callers hold a Backend& and never test which.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/backend_sizes.h"
#include "core/op/all.h"
#include "core/tensor.h"
#include "ops/async_read.h"
#include "ops/device_timer.h"
#include "ops/side_reader.h"
#include "ops/staged_upload.h"

namespace litespark {

/// Memory of one device, returned by Backend::allocate and released with it. Movable, not copyable.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;
  virtual int64_t bytes() const = 0;
};

/// What stands in a device's memory at one moment.
struct MemoryUse {
  /// Taken in all: on the CPU the resident bytes of this process, on a GPU what is not free, whoever took it. nullopt:
  /// the system does not say.
  std::optional<int64_t> used_bytes;
  int64_t allocated_bytes = 0;  ///< of it, given out by Backend::allocate and not yet returned
  int64_t num_allocations = 0;  ///< calls of Backend::allocate so far
};

/// Kept by a backend and by every piece of memory that it gave out.
struct MemoryLedger {
  int64_t allocated_bytes = 0;
  int64_t num_allocations = 0;
};

/// A fixed sequence of ops that the device starts by itself. Holds the addresses of the recording.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  /// Ordered with the ops and copies around it; returns before the work is done.
  virtual void launch() = 0;
};

/// Entry of Backend::tuning that names the instruction set of the kernels, where results depend on it.
inline constexpr const char* kKernelsTuning = "kernels";

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;
  virtual Device device() const = 0;
  /// Library-known sizes; exact by definition here.
  virtual const BackendSizes& sizes() const = 0;

  /// Zero-filled, aligned to 256 bytes or more, already touched. Throws ConfigError when the memory is not there.
  virtual std::unique_ptr<DeviceMemory> allocate(int64_t bytes) = 0;
  /// Host memory that the device copies from and to beside its ops, not zeroed. Default: memory like any other. Throws
  /// ConfigError when it is not there.
  virtual std::unique_ptr<DeviceMemory> allocate_pinned(int64_t bytes) { return allocate(bytes); }
  /// What allocate could give at this moment; nullopt when the system does not say.
  virtual std::optional<int64_t> free_bytes() const = 0;
  virtual MemoryUse memory_use() const = 0;
  /// Ordered with the ops that follow; returns when `source` may be reused.
  virtual void copy_to_device(void* destination, const void* source, int64_t bytes) = 0;
  /// Waits for the ops before it; returns when `destination` is filled.
  virtual void copy_to_host(void* destination, const void* source, int64_t bytes) = 0;
  /// A reader of `bytes` bytes that does not wait. Default: make_immediate_read.
  virtual std::unique_ptr<AsyncRead> make_async_read(int64_t bytes);
  /// A reader for one other thread. Default: make_immediate_side_reader.
  virtual std::unique_ptr<SideReader> make_side_reader();
  /// Fills `destination` again and again. `staging`: twice its bytes where BackendSizes::stages_batches(), else absent.
  /// Default: make_direct_upload.
  virtual std::unique_ptr<StagedUpload> make_staged_upload(const Tensor& destination, const Tensor& staging);
  /// Waits for everything issued so far; throws DeviceError when any of it failed.
  virtual void synchronize() = 0;
  /// A timer of its own for each caller; it may not outlive the backend.
  virtual std::unique_ptr<DeviceTimer> make_timer() = 0;

  /// Makes library objects (primitives, algorithm choices) for an op before the first step. Default: nothing.
  virtual void prepare(const op::AnyOp<Tensor>&) {}

  /// Every choice that was made by timing or by what libraries this machine has, as text; goes into manifests and
  /// checkpoints. Default: there are none.
  virtual std::map<std::string, std::string> tuning() const { return {}; }
  /// Takes such choices back before ops are prepared, so that a resumed run makes the same ones.
  virtual void set_tuning(const std::map<std::string, std::string>& /*choices*/) {}

  /// Records the ops that `body` runs on this backend instead of executing them; everything in it must have run once
  /// before, and `body` may not copy, allocate or synchronize. nullptr, with `body` not called, where the device has no
  /// graphs: the caller then runs the ops one by one.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& /*body*/) { return nullptr; }

  virtual void run(const op::EmbeddingForward<Tensor>&) = 0;
  virtual void run(const op::EmbeddingBackward<Tensor>&) = 0;
  virtual void run(const op::RmsNormForward<Tensor>&) = 0;
  virtual void run(const op::RmsNormBackward<Tensor>&) = 0;
  virtual void run(const op::HeadNormForward<Tensor>&) = 0;
  virtual void run(const op::HeadNormBackward<Tensor>&) = 0;
  virtual void run(const op::MatmulForward<Tensor>&) = 0;
  virtual void run(const op::MatmulBackwardInput<Tensor>&) = 0;
  virtual void run(const op::MatmulBackwardWeight<Tensor>&) = 0;
  virtual void run(const op::BiasBackward<Tensor>&) = 0;
  virtual void run(const op::PackWeight<Tensor>&) = 0;
  virtual void run(const op::Rope<Tensor>&) = 0;
  virtual void run(const op::AttentionForward<Tensor>&) = 0;
  virtual void run(const op::AttentionBackward<Tensor>&) = 0;
  virtual void run(const op::AttentionCached<Tensor>&) = 0;
  /// This and the next three where BackendSizes::has_attention_parts(). Default: throws InternalError.
  virtual void run(const op::AttentionPartForward<Tensor>& op);
  virtual void run(const op::AttentionPartBackward<Tensor>& op);
  virtual void run(const op::TakeColumns<Tensor>& op);
  virtual void run(const op::JoinColumns<Tensor>& op);
  virtual void run(const op::SwiGluForward<Tensor>&) = 0;
  virtual void run(const op::SwiGluBackward<Tensor>&) = 0;
  virtual void run(const op::GatedForward<Tensor>&) = 0;
  virtual void run(const op::GatedBackward<Tensor>&) = 0;
  virtual void run(const op::CrossEntropy<Tensor>&) = 0;
  virtual void run(const op::CrossEntropyPart<Tensor>&) = 0;
  virtual void run(const op::CrossEntropyJoined<Tensor>&) = 0;
  virtual void run(const op::LossReduce<Tensor>&) = 0;
  virtual void run(const op::GradientSquareSum<Tensor>&) = 0;
  virtual void run(const op::StepDecision<Tensor>&) = 0;
  virtual void run(const op::AdamW<Tensor>&) = 0;
  virtual void run(const op::MeanOfCopies<Tensor>&) = 0;
  virtual void run(const op::Convert<Tensor>&) = 0;
  virtual void run(const op::Add<Tensor>&) = 0;
  virtual void run(const op::OffloadStore<Tensor>&) = 0;
  virtual void run(const op::OffloadFetch<Tensor>&) = 0;
  virtual void run(const op::OffloadWait<Tensor>&) = 0;
  virtual void run(const op::Checksum<Tensor>&) = 0;
  virtual void run(const op::PutStepSums<Tensor>&) = 0;
  virtual void run(const op::TakeStepSums<Tensor>&) = 0;
  virtual void run(const op::Clear<Tensor>&) = 0;
  virtual void run(const op::AbsMax<Tensor>&) = 0;
  virtual void run(const op::QuantizeFp8<Tensor>&) = 0;
  virtual void run(const op::ScaledMatmul<Tensor>&) = 0;
  virtual void run(const op::QuantizeQkv<Tensor>&) = 0;
  virtual void run(const op::AttentionForwardFp8<Tensor>&) = 0;
  virtual void run(const op::CompressGradient<Tensor>&) = 0;
  virtual void run(const op::SumMessages<Tensor>&) = 0;
  virtual void run(const op::DropResidual<Tensor>&) = 0;
};

/// Throws InternalError unless shapes, dtypes and devices of the op agree with its contract. Run once per op when a
/// program is bound to memory, never inside a step. Works on tensors without data, so that a plan can be checked too.
void validate(const op::AnyOp<Tensor>& op);

}  // namespace litespark
