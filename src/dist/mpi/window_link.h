// SPDX-License-Identifier: Apache-2.0
// Messages that a rank writes straight into the other's memory: windows of MPI. The receiver does nothing for a message
// to arrive, and copies it out when it comes to it.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/link.h"

namespace litespark::dist {

struct WindowOptions {
  int64_t slot_bytes = int64_t{1} << 20;  ///< of a message at a time; each pair of ranks has two such slots
};

/// All ranks of an MPI session. Each rank's window holds two slots for every other rank, and counts: of chunks that
/// came from it, and of chunks that it has taken. Memory: 2 x ranks x slot_bytes.
class WindowLink final : public Link {
 public:
  /// Collective. Ranks are awaited until `deadline`; MPI then makes the window, which has no deadline of its own.
  /// Throws LinkFailure.
  WindowLink(const WindowOptions& options, Deadline deadline);
  ~WindowLink() override;

  std::string name() const override { return "mpi window"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) override;
  void abort(const std::string& why) noexcept override;

 private:
  struct Header;
  struct Outgoing;
  struct Incoming;

  MPI_Aint farewell_offset(int source) const;
  MPI_Aint slot_offset(int source, int64_t number) const;
  /// A count in this rank's window, as others have left it.
  int64_t count(size_t kind, int rank) const;
  void tell_count(size_t kind, int rank, int64_t value);
  bool put_chunk(Outgoing& out);
  bool take_chunk(Incoming& in);
  void check_alive() const;

  const int64_t slot_bytes_;
  int rank_ = 0;
  int size_ = 1;
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::byte* memory_ = nullptr;
  std::vector<int64_t> num_put_;    ///< chunks put to each rank
  std::vector<int64_t> num_taken_;  ///< chunks taken from each rank

  mutable std::mutex why_mutex_;
  std::string why_;
  std::string farewell_;  ///< MPI reads it when it likes
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace litespark::dist
