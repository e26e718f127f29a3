// SPDX-License-Identifier: Apache-2.0
// Labelled messages over a mesh of Gloo's TCP connections.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dist/gloo/gloo_mesh.h"
#include "dist/gloo/last_words.h"
#include "dist/link.h"
#include "dist/rendezvous.h"

namespace litespark::dist {

class GlooLink final : public Link {
 public:
  /// Connects all ranks under `mesh`, then each pair proves the secret. `beside`: a link whose thread serves this one's
  /// connections too. Throws LinkFailure.
  GlooLink(Rendezvous& rendezvous, const std::string& mesh, const std::string& secret, Deadline deadline,
           const GlooLink* beside = nullptr);
  ~GlooLink() override;

  std::string name() const override { return "gloo"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void transfer(std::span<const Message> sent, std::span<const Message> received, Deadline deadline) override;
  void announce_leave() noexcept override;
  void announce_failure(const std::string& why) noexcept override;
  std::optional<std::string> failure_of(int rank) override;
  std::vector<int> missed_ranks() override;
  void abort(const std::string& why) noexcept override;

 private:
  struct Entry {
    Message message;
    CallLabel label;  ///< at an address that stays while it is sent or received
    GlooBuffer label_buffer;
    GlooBuffer data_buffer;
    bool has_sent_data = false;
  };
  enum class Half : uint8_t { kSent, kReceived };
  /// What the transfer under way waits for.
  struct Awaited {
    gloo::transport::UnboundBuffer* buffer = nullptr;
    int rank = -1;
    int64_t number = 0;  ///< of the wait
  };
  struct Lost {
    int rank = -1;
    std::string error;
  };
  /// Buffers of the transfer under way, which abort() must end.
  class Transfer;

  void send_data(std::span<Entry* const> entries, int rank);
  void move(Transfer& under_way, std::span<const Message> sent, std::span<const Message> received);
  void wait(int rank, GlooBuffer& buffer, Half half);
  /// What it means that the connection to `rank` failed with `error`.
  [[noreturn]] void throw_failure(int rank, const std::string& error);
  void close() noexcept;
  /// Ends waits at their deadline, and when who is waited for is gone. A timeout of Gloo's own would break all
  /// connections, and nobody could be told why.
  void watch();
  void look();

  int rank_;
  int size_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::unique_ptr<LastWords> last_words_;  ///< nullptr: there is nobody else

  std::mutex mutex_;
  std::condition_variable changed_;
  Transfer* transfer_ = nullptr;
  int64_t num_transfers_ = 0;
  Awaited awaited_;
  int64_t num_waits_ = 0;
  int64_t suspected_wait_ = 0;  ///< the number of one on a rank that was gone at the last look
  std::optional<Lost> first_lost_;
  std::vector<std::unique_ptr<Transfer>> failed_;  ///< until abort()
  bool is_saying_farewell_ = false;
  bool has_ended_ = false;  ///< abort() has
  bool is_late_ = false;    ///< the transfer under way is
  bool is_ending_ = false;
  std::atomic<bool> is_aborted_ = false;
  std::string why_;  ///< empty: this rank does not give up
  std::mutex telling_mutex_;
  bool is_closed_ = false;
  std::thread watcher_;
};

}  // namespace litespark::dist
