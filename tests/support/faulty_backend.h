// SPDX-License-Identifier: Apache-2.0
// A backend around another one that fails on demand as a GPU does: an op that is refused, an error that shows only when
// the host looks, a flipped bit in what an op wrote, a read that is not there yet. A test that plants a fault asks
// `planted()` afterwards: a fault that did not happen proves nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ops/backend.h"

namespace litespark::test {

/// Overrides run() for every op of AnyOp by Self::run_any, so that a new op needs no new line here.
template <class Self, class Ops>
class RunsAny;
template <class Self, class First, class... Rest>
class RunsAny<Self, std::variant<First, Rest...>> : public RunsAny<Self, std::variant<Rest...>> {
 public:
  using RunsAny<Self, std::variant<Rest...>>::run;
  void run(const First& op) override { static_cast<Self*>(this)->run_any(op); }
};
/// What ranks send each other does not come to a backend.
template <class Self, op::Communication First, class... Rest>
class RunsAny<Self, std::variant<First, Rest...>> : public RunsAny<Self, std::variant<Rest...>> {};
template <class Self>
class RunsAny<Self, std::variant<>> : public Backend {
 public:
  using Backend::run;
};

/// Counted from 0 over all ops that the backend runs.
struct Faults {
  std::optional<int64_t> refuse_op;     ///< DeviceError out of this op, and out of everything after it: sticky
  std::optional<int64_t> fail_late_at;  ///< this op fails silently; the next wait, and everything after it, throws
  std::optional<int64_t> flip_bit_at;   ///< one bit of an output of this op is flipped after it ran
  uint64_t flip_seed = 0;               ///< which output, element and bit
  std::function<bool(const std::string& op)> counts = [](const std::string&) { return true; };  ///< other ops pass
  /// Side reads wait (ten seconds at most) until so many ops have run: a save that would hold up the ops fails.
  int64_t side_reads_wait_for_ops = 0;
  bool reads_late = false;  ///< asynchronous reads are done only when somebody waits for them
};

class FaultyBackend final : public RunsAny<FaultyBackend, op::AnyOp<Tensor>> {
 public:
  explicit FaultyBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  /// Faults from here on; the count of ops starts anew.
  void set_faults(Faults faults);
  /// Faults that really happened since then.
  int64_t planted() const { return planted_; }
  int64_t ops_run() const { return ops_run_; }
  /// "matmul_forward y": what the flipped bit belongs to.
  const std::string& flipped() const { return flipped_; }

  std::string name() const override { return inner_->name(); }
  Device device() const override { return inner_->device(); }
  const BackendSizes& sizes() const override { return inner_->sizes(); }
  std::unique_ptr<DeviceMemory> allocate(int64_t bytes) override { return inner_->allocate(bytes); }
  std::unique_ptr<DeviceMemory> allocate_pinned(int64_t bytes) override { return inner_->allocate_pinned(bytes); }
  std::optional<int64_t> free_bytes() const override { return inner_->free_bytes(); }
  MemoryUse memory_use() const override { return inner_->memory_use(); }
  std::unique_ptr<DeviceTimer> make_timer() override { return inner_->make_timer(); }
  void copy_to_device(void* destination, const void* source, int64_t bytes) override;
  void copy_to_host(void* destination, const void* source, int64_t bytes) override;
  std::unique_ptr<AsyncRead> make_async_read(int64_t bytes) override;
  std::unique_ptr<SideReader> make_side_reader() override;
  void synchronize() override;
  void prepare(const op::AnyOp<Tensor>& op) override { inner_->prepare(op); }
  std::map<std::string, std::string> tuning() const override { return inner_->tuning(); }
  void set_tuning(const std::map<std::string, std::string>& choices) override { inner_->set_tuning(choices); }

  template <class Op>
  void run_any(const Op& op) {
    if (!faults_.counts(std::string(Op::kName))) return inner_->run(op);
    const int64_t index = ops_run_++;
    before(index, Op::kName);
    inner_->run(op);
    if (index == faults_.flip_bit_at) flip(op);
  }

 private:
  class LateRead;
  class WaitingReader;
  void before(int64_t index, std::string_view op);
  void throw_if_broken(const char* what) const;

  /// Lists what an op wrote, so that one of it can be spoilt.
  struct Outputs {
    std::vector<std::pair<std::string, Tensor>>& list;
    Tensor in(std::string_view, const Tensor& tensor) const { return tensor; }
    Tensor out(std::string_view name, const Tensor& tensor) const {
      // Scratch means nothing after the op, absent tensors have no bits.
      if (tensor.has_value() && tensor.num_elements() > 0 && name != "scratch" && name != "partials" && name != "state")
        list.emplace_back(name, tensor);
      return tensor;
    }
    Tensor inout(std::string_view name, const Tensor& tensor) const { return out(name, tensor); }
  };
  template <class Op>
  void flip(const Op& op) {
    std::vector<std::pair<std::string, Tensor>> outputs;
    static_cast<void>(op.map(Outputs{outputs}));
    flip_one_of(Op::kName, outputs);
  }
  void flip_one_of(std::string_view op, const std::vector<std::pair<std::string, Tensor>>& outputs);

  std::unique_ptr<Backend> inner_;
  Faults faults_;
  std::atomic<int64_t> ops_run_ = 0;
  int64_t planted_ = 0;
  std::atomic<bool> is_broken_ = false;  ///< sticky, as a CUDA context is after a fault
  std::string flipped_;
};

}  // namespace litespark::test
