// SPDX-License-Identifier: Apache-2.0
#include "dist/nccl/nccl_handle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace litespark::dist {
namespace {

constexpr auto kWatchPeriod = std::chrono::milliseconds(20);
constexpr auto kIdlePeriod = std::chrono::milliseconds(100);
/// A thread inside NCCL may sit in a full launch queue behind the very kernel that hangs.
constexpr auto kLibraryPatience = std::chrono::seconds(1);
/// Peers that end in good order do so together.
constexpr double kClosingSeconds = 5;

/// Spins for the length of a launch, then sleeps.
class Backoff {
 public:
  void pause() {
    if (++rounds_ < 2000) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

 private:
  int rounds_ = 0;
};

bool is_done(cudaEvent_t event, cudaError_t& error) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaSuccess) return true;
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();  // it would count as an error of the next launch
  } else {
    error = status;
  }
  return false;
}

std::chrono::steady_clock::duration seconds_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

uint64_t read_word(const uint64_t* word) {
  return *static_cast<const volatile uint64_t*>(word);
}

}  // namespace

NcclHandle::NcclHandle(const NcclOptions& options, CallPlace place)
    : library_(nccl_library()),
      place_(std::move(place)),
      device_(options.device),
      timeout_seconds_(options.timeout_seconds),
      is_blocking_(options.is_blocking) {
  check(cudaHostAlloc(reinterpret_cast<void**>(&words_), 2 * sizeof(uint64_t), cudaHostAllocDefault), "cudaHostAlloc");
  words_[0] = words_[1] = 0;
  try {
    form(options);
  } catch (...) {
    abort_communicator();
    cudaFreeHost(words_);
    throw;
  }
  watcher_ = std::thread([this] { watch_loop(); });
}

NcclHandle::~NcclHandle() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  watcher_.join();
  close();
  cudaFreeHost(words_);
}

void NcclHandle::form(const NcclOptions& options) {
  ncclUniqueId id;
  static_assert(sizeof(id) == sizeof(options.id));
  std::memcpy(&id, options.id.data(), sizeof(id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = options.is_blocking ? 1 : 0;
  if (options.max_blocks > 0) config.maxCTAs = options.max_blocks;
  const Time deadline = deadline_from_now();
  const auto begin = [&] { return library_.comm_init_rank_config(&comm_, place_.size, id, place_.rank, &config); };
  const ncclResult_t state = is_blocking_ ? call_beside(begin, deadline) : settle(begin(), deadline);
  if (state == ncclSuccess) return;
  const std::string what = state == ncclInProgress ? "not all ranks came before the deadline" : error_text(state);
  throw CommError(place_.text(), "forming the communicator: " + what);
}

/// A call that waits for other ranks, on a thread of its own, so that the deadline can abort it: ncclInProgress then,
/// and there is no communicator any more.
ncclResult_t NcclHandle::call_beside(const std::function<ncclResult_t()>& call, Time deadline) {
  std::atomic<bool> has_ended = false;
  ncclResult_t status = ncclSuccess;
  std::thread beside([&] {
    cudaSetDevice(device_);
    status = call();
    has_ended = true;
  });
  Backoff backoff;
  while (!has_ended && std::chrono::steady_clock::now() < deadline) backoff.pause();
  const bool is_late = !has_ended;
  if (is_late) {
    // NCCL makes the communicator known before its ranks have come.
    if (const ncclComm_t comm = std::atomic_ref(comm_).load(); comm != nullptr) library_.comm_abort(comm);
  }
  beside.join();
  if (is_late) comm_ = nullptr;
  return is_late ? ncclInProgress : status;
}

NcclHandle::Time NcclHandle::deadline_from_now() const {
  return std::chrono::steady_clock::now() + seconds_of(timeout_seconds_);
}

/// Polls until NCCL is no longer busy: the last state, ncclInProgress when the deadline came or another thread failed.
ncclResult_t NcclHandle::settle(ncclResult_t state, Time deadline) {
  Backoff backoff;
  while (state == ncclInProgress && !has_failed_ && std::chrono::steady_clock::now() < deadline) {
    backoff.pause();
    const std::lock_guard lock(library_mutex_);
    if (comm_ == nullptr) break;
    const ncclResult_t asked = library_.comm_get_async_error(comm_, &state);
    if (asked != ncclSuccess) return asked;
  }
  return state;
}

std::string NcclHandle::error_text(ncclResult_t status) {
  const char* detail = library_.get_last_error(nullptr);
  return std::string("NCCL: ") + library_.get_error_string(status) +
         (detail != nullptr && *detail != '\0' ? std::string(" (") + detail + ")" : "");
}

void NcclHandle::launch(const CallLabel& label, const std::function<ncclResult_t(ncclComm_t)>& body) {
  check_alive();
  if (is_blocking_) {
    const std::lock_guard lock(mutex_);
    launching_.emplace(label, std::chrono::steady_clock::now());
  }
  ncclResult_t state = ncclSuccess;
  {
    const std::lock_guard lock(library_mutex_);
    if (comm_ != nullptr) state = body(comm_);
  }
  if (is_blocking_) {
    const std::lock_guard lock(mutex_);
    launching_.reset();
  } else {
    state = settle(state, deadline_from_now());
  }
  check_alive();
  if (state == ncclSuccess) return;
  fail(label.text() + ": " + (state == ncclInProgress ? "NCCL is busy past the deadline" : error_text(state)));
  check_alive();
}

void NcclHandle::watch(const WatchedCall& call) {
  Backoff backoff;
  while (true) {
    check_alive();
    {
      const std::lock_guard lock(mutex_);
      if (pending_.size() >= kMostWatched / 2) (void)look_at_calls(std::chrono::steady_clock::now());
      if (pending_.size() < kMostWatched - 1) {
        pending_.push_back({.call = call, .begun = std::nullopt});
        return;
      }
    }
    backoff.pause();
  }
}

void NcclHandle::watch_replays(const CallLabel& label) {
  const std::lock_guard lock(mutex_);
  replayed_.insert_or_assign(static_cast<uint64_t>(label.number), label);
}

void NcclHandle::check_alive() {
  if (!has_failed_) return;
  const std::lock_guard lock(mutex_);
  throw CommError(place_.text(), *failure_);
}

void NcclHandle::wait_on_host(cudaEvent_t done) {
  Backoff backoff;
  cudaError_t error = cudaSuccess;
  while (!is_done(done, error)) {
    check_alive();
    check(error, "waiting for a call");
    backoff.pause();
  }
  check_alive();
}

void NcclHandle::fail(const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = what;
    has_failed_ = true;
  }
  abort_communicator();
  changed_.notify_all();
}

/// Never ncclCommDestroy after an error: it may wait for ever.
void NcclHandle::abort_communicator() {
  const bool has_lock = library_mutex_.try_lock_for(kLibraryPatience);
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  if (comm != nullptr) library_.comm_abort(comm);
  if (has_lock) library_mutex_.unlock();
}

void NcclHandle::close() {
  if (comm_ == nullptr) return;
  const auto deadline = std::chrono::steady_clock::now() + seconds_of(std::min(kClosingSeconds, timeout_seconds_));
  if (!pending_.empty()) return abort_communicator();
  const auto finish = [&] { return library_.comm_finalize(comm_); };
  const ncclResult_t state = is_blocking_ ? call_beside(finish, deadline) : settle(finish(), deadline);
  if (comm_ == nullptr) return;
  if (state == ncclSuccess) {
    library_.comm_destroy(std::exchange(comm_, nullptr));
  } else {
    abort_communicator();
  }
}

std::string NcclHandle::late_call_text(const CallLabel& label) const {
  return label.text() + ": not done " + std::to_string(std::llround(timeout_seconds_)) +
         " s after it could begin; a rank is lost, late or made another call";
}

std::optional<std::string> NcclHandle::look_at_calls(Time now) {
  cudaError_t error = cudaSuccess;
  while (!pending_.empty() && is_done(pending_.front().call.done, error)) pending_.pop_front();
  if (error != cudaSuccess) return std::string("CUDA: ") + cudaGetErrorString(error);
  if (pending_.empty()) return std::nullopt;
  Pending& first = pending_.front();
  if (!first.begun && is_done(first.call.ready, error)) first.begun = now;
  if (first.begun && now - *first.begun > seconds_of(timeout_seconds_)) return late_call_text(first.call.label);
  return std::nullopt;
}

std::optional<std::string> NcclHandle::look_at_launch(Time now) const {
  if (!launching_ || now - launching_->second <= seconds_of(timeout_seconds_)) return std::nullopt;
  return launching_->first.text() + ": NCCL is busy past the deadline; a rank is lost, late or made another call";
}

std::optional<std::string> NcclHandle::look_at_replays(Time now) {
  const uint64_t done = read_word(done_word());
  const uint64_t begun = read_word(begun_word());
  if (begun == done || begun != seen_begun_) {
    seen_begun_ = begun == done ? 0 : begun;
    seen_begun_at_ = now;
    return std::nullopt;
  }
  if (now - seen_begun_at_ <= seconds_of(timeout_seconds_)) return std::nullopt;
  const auto found = replayed_.find(begun);
  return found == replayed_.end() ? "a replayed call is late" : late_call_text(found->second) + " (in a CUDA graph)";
}

std::optional<std::string> NcclHandle::look_at_library() {
  if (!library_mutex_.try_lock()) return std::nullopt;
  ncclResult_t state = ncclSuccess;
  if (comm_ != nullptr) library_.comm_get_async_error(comm_, &state);
  library_mutex_.unlock();
  if (state == ncclSuccess || state == ncclInProgress) return std::nullopt;
  const std::string during = pending_.empty() ? "" : pending_.front().call.label.text() + ": ";
  return during + error_text(state);
}

void NcclHandle::watch_loop() {
  cudaSetDevice(device_);
  std::unique_lock lock(mutex_);
  while (!is_closing_ && !failure_) {
    const bool is_idle = pending_.empty() && replayed_.empty();
    changed_.wait_for(lock, is_idle ? kIdlePeriod : kWatchPeriod, [this] { return is_closing_ || failure_; });
    if (is_closing_ || failure_) return;
    const Time now = std::chrono::steady_clock::now();
    std::optional<std::string> why = look_at_calls(now);
    if (!why) why = look_at_launch(now);
    if (!why) why = look_at_replays(now);
    if (!why) why = look_at_library();
    if (!why) continue;
    lock.unlock();
    fail(*why);
    return;
  }
}

}  // namespace litespark::dist
