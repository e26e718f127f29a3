// SPDX-License-Identifier: Apache-2.0
#include "dist/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dist/nccl/nccl_handle.h"
#include "dist/nccl/nccl_kernels.h"
#include "dist/nccl/nccl_library.h"
#include "dist/ordered_collectives.h"

namespace litespark {
namespace {

using dist::CallKind;
using dist::check;
using dist::CommCall;

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return ncclFloat32;
    case DType::kBF16: return ncclBfloat16;
    case DType::kF64: return ncclFloat64;
    default: return ncclUint8;
  }
}

/// What all ranks called so far, in one number that they compare.
uint64_t mixed(uint64_t hash, const dist::CallLabel& label) {
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  mix(static_cast<uint64_t>(label.kind));
  mix(static_cast<uint64_t>(label.dtype));
  mix(static_cast<uint64_t>(label.reduction));
  mix(label.shape_rank);
  mix(static_cast<uint64_t>(label.root));
  for (const int64_t extent : label.extents) mix(static_cast<uint64_t>(extent));
  return hash;
}

/// What a rank says at a barrier.
struct RollCall {
  uint64_t hash = 0;
  uint64_t num_calls = 0;
};

/// Events, a stream and memory that end with the communicator.
class DeviceParts {
 public:
  DeviceParts(int device, int64_t inbox_bytes, int size, void* shared_stream)
      : stream_(static_cast<cudaStream_t>(shared_stream)), owns_stream_(shared_stream == nullptr) {
    check(cudaSetDevice(device), "cudaSetDevice");
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    if (owns_stream_)
      check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    ready_.resize(dist::NcclHandle::kMostWatched);
    done_.resize(dist::NcclHandle::kMostWatched);
    for (auto* events : {&ready_, &done_}) {
      for (cudaEvent_t& event : *events)
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    check(cudaMalloc(reinterpret_cast<void**>(&inbox_), static_cast<size_t>(inbox_bytes)), "cudaMalloc");
    const size_t roll_bytes = sizeof(RollCall) * static_cast<size_t>(size + 1);
    check(cudaMalloc(reinterpret_cast<void**>(&roll_), roll_bytes), "cudaMalloc");
    check(cudaHostAlloc(reinterpret_cast<void**>(&host_roll_), roll_bytes, cudaHostAllocDefault), "cudaHostAlloc");
  }
  ~DeviceParts() {
    for (const auto* events : {&ready_, &done_}) {
      for (const cudaEvent_t event : *events) {
        if (event != nullptr) cudaEventDestroy(event);
      }
    }
    cudaFree(inbox_);
    cudaFree(roll_);
    cudaFreeHost(host_roll_);
    if (owns_stream_ && stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  DeviceParts(const DeviceParts&) = delete;
  DeviceParts& operator=(const DeviceParts&) = delete;

  cudaStream_t stream() const { return stream_; }
  cudaEvent_t ready(int64_t number) const { return ready_[slot_of(number)]; }
  cudaEvent_t done(int64_t number) const { return done_[slot_of(number)]; }
  std::byte* inbox() const { return inbox_; }
  RollCall* roll() const { return roll_; }            ///< one a rank, then this rank's own; on the device
  RollCall* host_roll() const { return host_roll_; }  ///< the same, page-locked

 private:
  static size_t slot_of(int64_t number) { return static_cast<size_t>(number) % dist::NcclHandle::kMostWatched; }

  cudaStream_t stream_ = nullptr;
  bool owns_stream_ = true;
  std::vector<cudaEvent_t> ready_;
  std::vector<cudaEvent_t> done_;
  std::byte* inbox_ = nullptr;
  RollCall* roll_ = nullptr;
  RollCall* host_roll_ = nullptr;
};

class NcclCommunicator final : public Communicator, private dist::CollectiveEngine {
 public:
  explicit NcclCommunicator(const NcclOptions& options)
      : options_(options),
        place_{.name = "nccl",
               .rank = options.rank,
               .size = options.size,
               .device = Device::kCuda,
               .group = options.group},
        compute_(static_cast<cudaStream_t>(options.compute_stream)),
        inbox_bytes_(options.inbox_bytes + 8 * options.size),
        library_(dist::nccl_library()),
        parts_(options.device, inbox_bytes_, options.size, options.shared_stream),
        shared_handle_(std::make_shared<dist::NcclHandle>(options, place_)),
        handle_(*shared_handle_),
        ordered_(*this, {.inbox_bytes = options.inbox_bytes, .direct_bytes = int64_t{256} << 10}) {}

  std::string name() const override { return place_.name; }
  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  // The sum of two is the same in either order.
  bool is_ordered() const override { return options_.is_ordered || place_.size <= 2; }
  void set_step(int64_t step) override { step_ = step; }

  CommTicket all_reduce(const Tensor& data, Reduction reduction) override {
    return issue({.kind = CallKind::kAllReduce, .data = data, .reduction = reduction});
  }
  CommTicket reduce_scatter(const Tensor& shard, const Tensor& data, Reduction reduction) override {
    return issue({.kind = CallKind::kReduceScatter, .data = data, .piece = shard, .reduction = reduction});
  }
  CommTicket all_gather(const Tensor& data, const Tensor& shard) override {
    return issue({.kind = CallKind::kAllGather, .data = data, .piece = shard});
  }
  CommTicket broadcast(const Tensor& data, int root) override {
    return issue({.kind = CallKind::kBroadcast, .data = data, .root = root});
  }
  CommTicket all_to_all(const Tensor& received, const Tensor& sent) override {
    return issue({.kind = CallKind::kAllToAll, .data = received, .piece = sent});
  }
  CommTicket exchange(const Tensor& received, int source, const Tensor& sent, int destination) override {
    return issue({.kind = CallKind::kExchange,
                  .received = received,
                  .sent = sent,
                  .source = source,
                  .destination = destination});
  }

  void wait(CommTicket ticket) override {
    handle_.check_alive();
    if (ticket.id < 1 || ticket.id > num_calls_)
      throw InternalError(place_.text(), "wait for a call that was never made", ticket.id, num_calls_);
    // The event of an old ticket may be a later call's by now, which is done no earlier.
    check(cudaStreamWaitEvent(compute_, parts_.done(ticket.id), 0), "cudaStreamWaitEvent");
  }

  void check_alive() override { handle_.check_alive(); }

  void barrier() override {
    if (is_capturing()) throw InternalError(place_.text(), "a barrier cannot be part of a CUDA graph");
    const CommTicket ticket = issue({.kind = CallKind::kBarrier});
    handle_.wait_on_host(parts_.done(ticket.id));
    compare_calls();
  }

  std::unique_ptr<Communicator> split(int color) override {
    const std::vector<int32_t> colors = told_by_all(static_cast<int32_t>(color));
    std::vector<int> members;
    for (int rank = 0; rank < place_.size; ++rank) {
      if (colors[static_cast<size_t>(rank)] == color) members.push_back(rank);
    }
    const bool is_first = members.front() == place_.rank;
    NcclOptions options = options_;
    options.id = told_by_all(is_first ? make_nccl_id() : NcclId{})[static_cast<size_t>(members.front())];
    options.rank = static_cast<int>(std::count(colors.begin(), colors.begin() + place_.rank, color));
    options.size = static_cast<int>(members.size());
    options.shared_stream = parts_.stream();
    options.group = dist::ranks_text(members);
    auto group = std::make_unique<NcclCommunicator>(options);
    groups_.push_back(group->shared_handle_);
    return group;
  }

  void abort(const std::string& why) override {
    handle_.fail("aborted: " + why);
    for (const auto& group : groups_) {
      if (const auto alive = group.lock()) alive->fail("aborted: " + why);
    }
  }

 private:
  /// What every rank gives, on the host, in rank order.
  template <class T>
  std::vector<T> told_by_all(const T& own) {
    const auto bytes = static_cast<int64_t>(sizeof(T));
    std::vector<T> all(static_cast<size_t>(place_.size));
    void* memory = nullptr;
    check(cudaMalloc(&memory, static_cast<size_t>(bytes * (place_.size + 1))), "cudaMalloc");
    const std::unique_ptr<void, cudaError_t (*)(void*)> owner(memory, cudaFree);
    auto* const last = static_cast<std::byte*>(memory) + bytes * place_.size;
    check(cudaMemcpyAsync(last, &own, sizeof(T), cudaMemcpyHostToDevice, compute_), "cudaMemcpyAsync");
    wait(all_gather({.data = memory, .dtype = DType::kU8, .shape = {bytes * place_.size}, .device = Device::kCuda},
                    {.data = last, .dtype = DType::kU8, .shape = {bytes}, .device = Device::kCuda}));
    barrier();
    check(cudaMemcpy(all.data(), memory, sizeof(T) * all.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return all;
  }

  bool is_capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(compute_, &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }

  CommTicket issue(CommCall call) {
    dist::check_call(call, place_);
    handle_.check_alive();
    call.number = ++num_calls_;
    call.step = step_;
    label_ = dist::label_of(call);
    if (call.kind != CallKind::kExchange && call.kind != CallKind::kBarrier) called_ = mixed(called_, label_);
    const bool is_captured = is_capturing();
    if (is_captured && options_.is_blocking)
      throw InternalError(place_.text(), "calls that block their thread cannot be part of a CUDA graph");
    const cudaEvent_t ready = parts_.ready(call.number);
    const cudaEvent_t done = parts_.done(call.number);
    check(cudaEventRecord(ready, compute_), "cudaEventRecord");
    check(cudaStreamWaitEvent(parts_.stream(), ready, 0), "cudaStreamWaitEvent");
    if (is_captured) dist::launch_mark(handle_.begun_word(), static_cast<uint64_t>(call.number), parts_.stream());
    put_on_stream(call);
    if (is_captured) dist::launch_mark(handle_.done_word(), static_cast<uint64_t>(call.number), parts_.stream());
    check(cudaEventRecord(done, parts_.stream()), "cudaEventRecord");
    if (is_captured) {
      handle_.watch_replays(label_);
    } else {
      handle_.watch({.label = label_, .ready = ready, .done = done});
    }
    return {num_calls_};
  }

  /// NCCL adds bf16 at every hop with a rounding each, and its maximum takes a number over a NaN.
  bool needs_our_kernel(const CommCall& call) const {
    if (call.reduction == Reduction::kMax) return true;
    return place_.size > 2 && (options_.is_ordered || call.data.dtype == DType::kBF16);
  }

  void put_on_stream(const CommCall& call) {
    switch (call.kind) {
      case CallKind::kAllReduce: return needs_our_kernel(call) ? ordered_.run(call) : all_reduce(call);
      case CallKind::kReduceScatter: return needs_our_kernel(call) ? ordered_.run(call) : reduce_scatter(call);
      case CallKind::kAllGather: return all_gather(call);
      case CallKind::kBroadcast: return broadcast(call);
      case CallKind::kAllToAll:
      case CallKind::kExchange: return ordered_.run(call);
      case CallKind::kBarrier: return call_roll();
    }
  }

  void all_reduce(const CommCall& call) {
    handle_.launch(label_, [&](ncclComm_t comm) {
      return library_.all_reduce(call.data.data, call.data.data, static_cast<size_t>(call.data.num_elements()),
                                 nccl_type(call.data.dtype), ncclSum, comm, parts_.stream());
    });
  }

  void reduce_scatter(const CommCall& call) {
    handle_.launch(label_, [&](ncclComm_t comm) {
      return library_.reduce_scatter(call.data.data, call.piece.data, static_cast<size_t>(call.piece.num_elements()),
                                     nccl_type(call.data.dtype), ncclSum, comm, parts_.stream());
    });
  }

  void all_gather(const CommCall& call) {
    handle_.launch(label_, [&](ncclComm_t comm) {
      return library_.all_gather(call.piece.data, call.data.data, static_cast<size_t>(call.piece.bytes()), ncclUint8,
                                 comm, parts_.stream());
    });
  }

  void broadcast(const CommCall& call) {
    handle_.launch(label_, [&](ncclComm_t comm) {
      return library_.broadcast(call.data.data, call.data.data, static_cast<size_t>(call.data.bytes()), ncclUint8,
                                call.root, comm, parts_.stream());
    });
  }

  /// A barrier's messages say what each rank called since it began.
  void call_roll() {
    RollCall* own_host = parts_.host_roll() + place_.size;
    RollCall* own = parts_.roll() + place_.size;
    *own_host = {.hash = called_, .num_calls = static_cast<uint64_t>(num_calls_)};
    check(cudaMemcpyAsync(own, own_host, sizeof(RollCall), cudaMemcpyHostToDevice, parts_.stream()), "cudaMemcpyAsync");
    handle_.launch(label_, [&](ncclComm_t comm) {
      return library_.all_gather(own, parts_.roll(), sizeof(RollCall), ncclUint8, comm, parts_.stream());
    });
    check(cudaMemcpyAsync(parts_.host_roll(), parts_.roll(), sizeof(RollCall) * static_cast<size_t>(place_.size),
                          cudaMemcpyDeviceToHost, parts_.stream()),
          "cudaMemcpyAsync");
  }

  void compare_calls() {
    for (int other = 0; other < place_.size; ++other) {
      const RollCall& said = parts_.host_roll()[other];
      if (said.hash == called_) continue;
      handle_.fail(label_.text() + ": rank " + std::to_string(other) + " did not make the same calls as rank " +
                   std::to_string(place_.rank) + " before it (it made " + std::to_string(said.num_calls) + ")");
      handle_.check_alive();
    }
  }

  // The engine of ordered_: everything goes on the comm stream, which keeps its order.

  void transfer(std::span<const dist::Message> sent, std::span<const dist::Message> received) override {
    if (sent.empty() && received.empty()) return;
    handle_.launch(label_, [&](ncclComm_t comm) {
      ncclResult_t status = library_.group_start();
      const auto add = [&](ncclResult_t next) {
        if (status == ncclSuccess && next != ncclInProgress) status = next;
      };
      for (const dist::Message& message : sent) {
        if (message.bytes == 0) continue;
        add(library_.send(message.data, static_cast<size_t>(message.bytes), ncclUint8, message.rank, comm,
                          parts_.stream()));
      }
      for (const dist::Message& message : received) {
        if (message.bytes == 0) continue;
        add(library_.recv(message.data, static_cast<size_t>(message.bytes), ncclUint8, message.rank, comm,
                          parts_.stream()));
      }
      const ncclResult_t ended = library_.group_end();
      return status == ncclSuccess ? ended : status;
    });
  }

  std::byte* inbox(int64_t bytes) override {
    if (bytes > inbox_bytes_) throw InternalError(place_.text(), "the inbox is too small", inbox_bytes_, bytes);
    return parts_.inbox();
  }

  void reduce(void* out, const void* own, int64_t num_elements, DType dtype, Reduction reduction) override {
    dist::launch_reduce_in_order(
        out,
        {.own = own, .others = parts_.inbox(), .rank = place_.rank, .size = place_.size, .num_elements = num_elements},
        dtype, reduction, parts_.stream());
  }

  void copy(void* destination, const void* source, int64_t bytes) override {
    check(cudaMemcpyAsync(destination, source, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, parts_.stream()),
          "cudaMemcpyAsync");
  }

  const NcclOptions options_;
  const dist::CallPlace place_;
  const cudaStream_t compute_;
  const int64_t inbox_bytes_;
  const dist::NcclLibrary& library_;
  DeviceParts parts_;
  std::shared_ptr<dist::NcclHandle> shared_handle_;  // ends before the stream that it uses
  dist::NcclHandle& handle_;
  std::vector<std::weak_ptr<dist::NcclHandle>> groups_;  ///< that were split from this one
  dist::OrderedCollectives ordered_;
  dist::CallLabel label_;  ///< of the call that is being issued
  uint64_t called_ = 0xcbf29ce484222325u;
  int64_t num_calls_ = 0;
  int64_t step_ = 0;
};

}  // namespace

NcclId make_nccl_id() {
  const dist::NcclLibrary& library = dist::nccl_library();
  ncclUniqueId unique;
  const ncclResult_t status = library.get_unique_id(&unique);
  if (status != ncclSuccess) throw CommError("nccl", std::string("no unique id: ") + library.get_error_string(status));
  NcclId id;
  static_assert(sizeof(unique) == sizeof(id));
  std::memcpy(id.data(), &unique, sizeof(id));
  return id;
}

std::string nccl_version_text() {
  const dist::NcclLibrary& library = dist::nccl_library();
  const int version = library.version;
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100) + " (" + library.path + ")";
}

std::unique_ptr<Communicator> make_nccl_communicator(const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(options);
}

}  // namespace litespark
