// SPDX-License-Identifier: Apache-2.0
#include "dist/mpi/mpi_communicator.h"

#include <malloc.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dist/link.h"
#include "dist/mpi/mpi_calls.h"
#include "dist/mpi/window_link.h"
#include "dist/payload_hash.h"

namespace litespark {
namespace {

using dist::CallLabel;
using dist::Deadline;
using dist::LinkFailure;
using dist::Message;
using dist::mpi_mutex;
using dist::must_mpi;

constexpr int kLabelTag = 1;
constexpr int kDataTag = 2;
constexpr int kFarewellTag = 3;
constexpr size_t kFarewellBytes = 512;
constexpr auto kFarewellPatience = std::chrono::milliseconds(200);
/// MPI counts in int; a longer message goes in parts.
constexpr int64_t kMostPartBytes = int64_t{1} << 30;

std::atomic<bool> has_session = false;
std::atomic<bool> has_failed = false;
class MpiLink final : public dist::Link {
 public:
  explicit MpiLink(Deadline deadline) {
    const std::lock_guard lock(mpi_mutex());
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Request request = MPI_REQUEST_NULL;
    must_mpi(MPI_Comm_idup(MPI_COMM_WORLD, &comm_, &request), "MPI_Comm_idup");
    int is_done = 0;
    while (is_done == 0) {
      must_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Comm_idup");
      if (is_done == 0 && std::chrono::steady_clock::now() > deadline)
        throw LinkFailure("not all ranks came before the deadline");
      if (is_done == 0) std::this_thread::yield();
    }
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

  // The duplicated communicator stays: freeing it is a call of all ranks, and those may be in any order of their own.

  std::string name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) override {
    Transfer under_way;
    try {
      // Short messages of a rank that gave up since are all there, and would make this call succeed for this rank
      // alone. A probe that finds nothing lets MPI look for news, which the next one finds.
      hear_farewell();
      hear_farewell();
      start(under_way, sent, received);
      await_labels(under_way, received, deadline);
      await_all(under_way, deadline);
      for (size_t i = 0; i < received.size(); ++i) dist::require_undamaged(received[i], under_way.labels[i]);
    } catch (...) {
      give_up(under_way);
      throw;
    }
  }

  void abort(const std::string& why) noexcept override {
    {
      const std::lock_guard lock(why_mutex_);
      if (is_aborted_) return;
      why_ = why;
      is_aborted_ = true;
      has_failed = true;
    }
    say_farewell(why);
  }

 private:
  struct Transfer {
    std::vector<CallLabel> sent_labels;
    std::vector<CallLabel> labels;
    std::vector<MPI_Request> label_requests;
    std::vector<MPI_Request> requests;
    std::vector<int> ranks;  ///< whom each of `requests` concerns
  };

  template <class Post>
  void post_parts(Transfer& transfer, const Message& message, const Post& post) {
    for (int64_t done = 0; done < message.bytes; done += kMostPartBytes) {
      const auto count = static_cast<int>(std::min(kMostPartBytes, message.bytes - done));
      MPI_Request& request = transfer.requests.emplace_back(MPI_REQUEST_NULL);
      transfer.ranks.push_back(message.rank);
      must_mpi(post(static_cast<std::byte*>(message.data) + done, count, &request), "posting a message");
    }
  }

  void start(Transfer& transfer, std::span<const Message> sent, std::span<const Message> received) {
    dist::SealedLabels labels;
    for (const Message& message : sent) transfer.sent_labels.push_back(labels.seal(message));
    const std::lock_guard lock(mpi_mutex());
    transfer.labels.resize(received.size());
    transfer.label_requests.assign(received.size(), MPI_REQUEST_NULL);
    for (size_t i = 0; i < received.size(); ++i) {
      must_mpi(MPI_Irecv(&transfer.labels[i], sizeof(CallLabel), MPI_BYTE, received[i].rank, kLabelTag, comm_,
                         &transfer.label_requests[i]),
               "MPI_Irecv");
    }
    for (size_t i = 0; i < sent.size(); ++i) {
      const Message& message = sent[i];
      const CallLabel& label = transfer.sent_labels[i];
      MPI_Request& request = transfer.requests.emplace_back(MPI_REQUEST_NULL);
      transfer.ranks.push_back(message.rank);
      must_mpi(MPI_Isend(&label, sizeof(CallLabel), MPI_BYTE, message.rank, kLabelTag, comm_, &request), "MPI_Isend");
      post_parts(transfer, message, [&](void* data, int count, MPI_Request* part) {
        return MPI_Isend(data, count, MPI_BYTE, message.rank, kDataTag, comm_, part);
      });
    }
  }

  void await_labels(Transfer& transfer, std::span<const Message> received, Deadline deadline) {
    for (size_t i = 0; i < received.size(); ++i) {
      const auto late = [&] {
        std::vector<int> ranks;
        for (size_t j = i; j < received.size(); ++j) {
          if (!is_done(transfer.label_requests[j])) ranks.push_back(received[j].rank);
        }
        return ranks;
      };
      poll_until([&] { return is_done(transfer.label_requests[i]); }, late, deadline);
      if (!transfer.labels[i].is_same_call(received[i].label))
        throw LinkFailure(dist::other_call_text(received[i].rank, transfer.labels[i]));
      const std::lock_guard lock(mpi_mutex());
      post_parts(transfer, received[i], [&](void* data, int count, MPI_Request* part) {
        return MPI_Irecv(data, count, MPI_BYTE, received[i].rank, kDataTag, comm_, part);
      });
    }
  }

  void await_all(Transfer& transfer, Deadline deadline) {
    const auto late = [&] {
      std::vector<int> ranks;
      for (size_t i = 0; i < transfer.requests.size(); ++i) {
        if (!is_done(transfer.requests[i])) ranks.push_back(transfer.ranks[i]);
      }
      return ranks;
    };
    poll_until(
        [&] {
          const std::lock_guard lock(mpi_mutex());
          int are_done = 0;
          must_mpi(MPI_Testall(static_cast<int>(transfer.requests.size()), transfer.requests.data(), &are_done,
                               MPI_STATUSES_IGNORE),
                   "MPI_Testall");
          return are_done != 0;
        },
        late, deadline);
  }

  static bool is_done(MPI_Request& request) {
    const std::lock_guard lock(mpi_mutex());
    int done = 0;
    must_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  template <class Condition, class Late>
  void poll_until(const Condition& is_there, const Late& late, Deadline deadline) {
    for (int64_t round = 1; !is_there(); ++round) {
      if (is_aborted_) {
        const std::lock_guard lock(why_mutex_);
        throw LinkFailure("aborted: " + why_);
      }
      if (round % 64 == 0) hear_farewell();
      if (std::chrono::steady_clock::now() > deadline) {
        hear_farewell();
        const std::vector<int> ranks = late();
        throw LinkFailure(ranks.empty() ? "not done before the deadline" : dist::late_text(ranks));
      }
      std::this_thread::yield();
    }
  }

  void hear_farewell() {
    const std::lock_guard lock(mpi_mutex());
    int is_there = 0;
    MPI_Status status;
    must_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kFarewellTag, comm_, &is_there, &status), "MPI_Iprobe");
    if (is_there == 0) return;
    std::array<char, kFarewellBytes> text = {};
    must_mpi(MPI_Recv(text.data(), kFarewellBytes, MPI_CHAR, status.MPI_SOURCE, kFarewellTag, comm_, MPI_STATUS_IGNORE),
             "MPI_Recv");
    text.back() = '\0';
    throw LinkFailure("rank " + std::to_string(status.MPI_SOURCE) + " gave up: " + text.data());
  }

  void say_farewell(const std::string& why) noexcept {
    std::array<char, kFarewellBytes> text = {};
    std::memcpy(text.data(), why.data(), std::min(why.size(), kFarewellBytes - 1));
    std::vector<MPI_Request> requests;
    const std::lock_guard lock(mpi_mutex());
    for (int rank = 0; rank < size_; ++rank) {
      MPI_Request& request = requests.emplace_back(MPI_REQUEST_NULL);
      if (rank != rank_) MPI_Isend(text.data(), kFarewellBytes, MPI_CHAR, rank, kFarewellTag, comm_, &request);
    }
    const auto deadline = std::chrono::steady_clock::now() + kFarewellPatience;
    int are_done = 0;
    while (are_done == 0 && std::chrono::steady_clock::now() < deadline)
      MPI_Testall(size_, requests.data(), &are_done, MPI_STATUSES_IGNORE);
  }

  /// Receives are taken back; a send cannot be, so what it reads from must stay for a moment, and the process ends
  /// soon.
  static void give_up(Transfer& transfer) {
    const std::lock_guard lock(mpi_mutex());
    for (auto* requests : {&transfer.label_requests, &transfer.requests}) {
      for (MPI_Request& request : *requests) {
        if (request == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }
    // Labels that MPI may still read or write outlive the transfer.
    static std::vector<Transfer> kept;
    kept.push_back(std::move(transfer));
  }

  int rank_ = 0;
  int size_ = 1;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::mutex why_mutex_;
  std::string why_;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace

MpiSession::MpiSession() {
  if (has_session.exchange(true)) throw ConfigError("mpi", "this process has a session already");
  // Large collectives of MPI allocate temporaries, which glibc would give back to the kernel and fault in again each
  // time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 256 << 20);
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
    throw ConfigError("mpi", "MPI_Init_thread failed");
  if (provided < MPI_THREAD_SERIALIZED)
    throw ConfigError("mpi", "allows too few threads", provided, "MPI_THREAD_SERIALIZED");
}

MpiSession::~MpiSession() {
  if (!has_failed && std::uncaught_exceptions() == 0) MPI_Finalize();
}

std::unique_ptr<Communicator> make_mpi_communicator(const MpiSession&, const dist::HostCommunicator::Options& options,
                                                    double join_seconds,
                                                    std::shared_ptr<const dist::TierSwitch> one_sided) {
  const auto patience = std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(join_seconds));
  const Deadline deadline = std::chrono::steady_clock::now() + patience;
  std::unique_ptr<dist::Link> link;
  try {
    link = std::make_unique<MpiLink>(deadline);
    if (one_sided) {
      std::vector<dist::TierLink> others;
      others.push_back(
          {.tier = dist::Tier::kOneSided, .link = std::make_unique<dist::WindowLink>(dist::WindowOptions{}, deadline)});
      link = std::make_unique<dist::TieredLink>(std::move(link), std::move(others), std::move(one_sided));
    }
  } catch (const LinkFailure& failure) {
    has_failed = true;
    throw CommError("mpi", failure.what());
  }
  return std::make_unique<dist::HostCommunicator>(std::move(link), options);
}

}  // namespace litespark
