// SPDX-License-Identifier: Apache-2.0
#include "dist/mpi/window_link.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "dist/mpi/mpi_calls.h"

namespace litespark::dist {
namespace {

constexpr int64_t kSlots = 2;
/// In front of the slots: so many counts for each rank, then each rank's farewell, whose last byte says that it is
/// there.
enum : size_t { kCame, kTaken, kNumCounts };
constexpr int64_t kFarewellBytes = 512;
constexpr char kFarewellMark = '\1';

}  // namespace

/// In front of a message's first chunk.
struct WindowLink::Header {
  int64_t bytes = 0;
  CallLabel label;
};

struct WindowLink::Outgoing {
  const Message* message;
  int64_t done = -1;  ///< bytes that were put; -1: not even the header
  bool is_done() const { return done == message->bytes; }
};

struct WindowLink::Incoming {
  const Message* message;
  int64_t done = -1;
  bool is_done() const { return done == message->bytes; }
};

WindowLink::WindowLink(const WindowOptions& options, Deadline deadline) : slot_bytes_(options.slot_bytes) {
  const std::lock_guard lock(mpi_mutex());
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Request request = MPI_REQUEST_NULL;
  must_mpi(MPI_Comm_idup(MPI_COMM_WORLD, &comm_, &request), "MPI_Comm_idup");
  for (int is_done = 0; is_done == 0;) {
    must_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Comm_idup");
    if (is_done == 0 && std::chrono::steady_clock::now() > deadline)
      throw LinkFailure("not all ranks came before the deadline");
    if (is_done == 0) std::this_thread::yield();
  }
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  const MPI_Aint bytes = slot_offset(size_, 0);
  must_mpi(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, comm_, &memory_, &window_), "MPI_Win_allocate");
  MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
  std::memset(memory_, 0, static_cast<size_t>(bytes));
  // Nobody puts anything before all have cleared theirs.
  must_mpi(MPI_Win_fence(0, window_), "MPI_Win_fence");
  must_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
  num_put_.assign(static_cast<size_t>(size_), 0);
  num_taken_.assign(static_cast<size_t>(size_), 0);
}

WindowLink::~WindowLink() {
  // The window stays: freeing it is a call of all ranks, and those may be in any order of their own.
  const std::lock_guard lock(mpi_mutex());
  if (!is_aborted_ && window_ != MPI_WIN_NULL) MPI_Win_unlock_all(window_);
}

MPI_Aint WindowLink::farewell_offset(int source) const {
  const auto counts = static_cast<int64_t>(kNumCounts * sizeof(int64_t)) * size_;
  return static_cast<MPI_Aint>(counts + source * kFarewellBytes);
}

MPI_Aint WindowLink::slot_offset(int source, int64_t number) const {
  const int64_t whole = slot_bytes_ + static_cast<int64_t>(sizeof(Header));
  return farewell_offset(size_) + static_cast<MPI_Aint>((source * kSlots + number % kSlots) * whole);
}

int64_t WindowLink::count(size_t kind, int rank) const {
  const auto* counts = reinterpret_cast<const int64_t*>(memory_);
  return __atomic_load_n(counts + kind * static_cast<size_t>(size_) + static_cast<size_t>(rank), __ATOMIC_ACQUIRE);
}

void WindowLink::tell_count(size_t kind, int rank, int64_t value) {
  const auto at =
      static_cast<MPI_Aint>((kind * static_cast<size_t>(size_) + static_cast<size_t>(rank_)) * sizeof(value));
  must_mpi(MPI_Accumulate(&value, 1, MPI_INT64_T, rank, at, 1, MPI_INT64_T, MPI_REPLACE, window_), "MPI_Accumulate");
  must_mpi(MPI_Win_flush(rank, window_), "MPI_Win_flush");
}

bool WindowLink::put_chunk(Outgoing& out) {
  const int to = out.message->rank;
  int64_t& number = num_put_[static_cast<size_t>(to)];
  if (number - count(kTaken, to) >= kSlots) return false;
  const MPI_Aint at = slot_offset(rank_, number);
  const Header header = {.bytes = out.message->bytes, .label = out.message->label};
  if (out.done < 0) {
    must_mpi(MPI_Put(&header, sizeof(header), MPI_BYTE, to, at, sizeof(header), MPI_BYTE, window_), "MPI_Put");
    out.done = 0;
  }
  const auto bytes = static_cast<int>(std::min(slot_bytes_, out.message->bytes - out.done));
  if (bytes > 0) {
    const auto* from = static_cast<const std::byte*>(out.message->data) + out.done;
    must_mpi(MPI_Put(from, bytes, MPI_BYTE, to, at + static_cast<MPI_Aint>(sizeof(header)), bytes, MPI_BYTE, window_),
             "MPI_Put");
  }
  must_mpi(MPI_Win_flush(to, window_), "MPI_Win_flush");  // there, before the count says so
  out.done += bytes;
  tell_count(kCame, to, ++number);
  return true;
}

bool WindowLink::take_chunk(Incoming& in) {
  const int from = in.message->rank;
  int64_t& number = num_taken_[static_cast<size_t>(from)];
  if (count(kCame, from) <= number) return false;
  const std::byte* chunk = memory_ + slot_offset(from, number);
  if (in.done < 0) {
    Header header;
    std::memcpy(&header, chunk, sizeof(header));
    if (!header.label.is_same_call(in.message->label) || header.bytes != in.message->bytes)
      throw LinkFailure(other_call_text(from, header.label));
    in.done = 0;
  }
  const int64_t bytes = std::min(slot_bytes_, in.message->bytes - in.done);
  if (bytes > 0) {
    std::memcpy(static_cast<std::byte*>(in.message->data) + in.done, chunk + sizeof(Header),
                static_cast<size_t>(bytes));
  }
  in.done += bytes;
  tell_count(kTaken, from, ++number);
  return true;
}

void WindowLink::transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (const Message& message : sent) out.push_back({.message = &message});
  for (const Message& message : received) in.push_back({.message = &message});
  // Between two ranks messages keep their order: one is begun when the one before it is done.
  const auto is_first = [](const auto& entries, size_t at) {
    return std::none_of(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(at), [&](const auto& one) {
      return one.message->rank == entries[at].message->rank && !one.is_done();
    });
  };
  const auto advance = [&](auto& entries, const auto& step) {
    bool has_moved = false;
    for (size_t at = 0; at < entries.size(); ++at) {
      if (!entries[at].is_done() && is_first(entries, at)) has_moved |= step(entries[at]);
    }
    return has_moved;
  };
  const auto is_over = [](const auto& entries) {
    return std::all_of(entries.begin(), entries.end(), [](const auto& one) { return one.is_done(); });
  };
  while (!is_over(out) || !is_over(in)) {
    check_alive();
    bool has_moved = false;
    {
      const std::lock_guard lock(mpi_mutex());
      // Windows that are emulated make progress in MPI's calls alone.
      int is_there = 0;
      must_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &is_there, MPI_STATUS_IGNORE), "MPI_Iprobe");
      must_mpi(MPI_Win_sync(window_), "MPI_Win_sync");
      has_moved = advance(in, [&](Incoming& one) { return take_chunk(one); });
      has_moved |= advance(out, [&](Outgoing& one) { return put_chunk(one); });
    }
    if (has_moved) continue;
    if (std::chrono::steady_clock::now() > deadline) {
      std::vector<int> late;
      for (const Incoming& one : in) {
        if (!one.is_done()) late.push_back(one.message->rank);
      }
      for (const Outgoing& one : out) {
        if (late.empty() && !one.is_done()) late.push_back(one.message->rank);
      }
      throw LinkFailure(late_text(late));
    }
    std::this_thread::yield();
  }
}

void WindowLink::check_alive() const {
  if (is_aborted_) {
    const std::lock_guard lock(why_mutex_);
    throw LinkFailure("aborted: " + why_);
  }
  for (int rank = 0; rank < size_; ++rank) {
    const char* text = reinterpret_cast<const char*>(memory_ + farewell_offset(rank));
    if (__atomic_load_n(text + kFarewellBytes - 1, __ATOMIC_ACQUIRE) == kFarewellMark)
      throw LinkFailure("rank " + std::to_string(rank) + " gave up: " + std::string(text));
  }
}

void WindowLink::abort(const std::string& why) noexcept {
  {
    const std::lock_guard lock(why_mutex_);
    if (is_aborted_) return;
    why_ = why;
    is_aborted_ = true;
  }
  farewell_.assign(static_cast<size_t>(kFarewellBytes), '\0');
  std::memcpy(farewell_.data(), why.data(), std::min(why.size(), farewell_.size() - 2));
  farewell_.back() = kFarewellMark;
  // A flush could wait for a rank that is lost: MPI sends this on when it is called next, at the latest by the farewell
  // of the usual way.
  const std::lock_guard lock(mpi_mutex());
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    MPI_Put(farewell_.data(), kFarewellBytes, MPI_BYTE, rank, farewell_offset(rank_), kFarewellBytes, MPI_BYTE,
            window_);
  }
}

}  // namespace litespark::dist
