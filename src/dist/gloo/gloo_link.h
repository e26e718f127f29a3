// SPDX-License-Identifier: Apache-2.0
// Labelled messages over a mesh of Gloo's TCP connections.
#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

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
  void abort(const std::string& why) noexcept override;

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  struct Entry {
    Message message;
    CallLabel label;  ///< at an address that stays while it is sent or received
    Buffer label_buffer;
    Buffer data_buffer;
    bool has_sent_data = false;
  };
  /// Buffers of the transfer under way, which abort() must end.
  class Transfer;

  void connect(Rendezvous& rendezvous, const std::string& mesh, Deadline deadline);
  void prove_each_other(const std::string& secret, Deadline deadline);
  void listen_for_farewells();
  void listen_for_leaves();
  void leave();
  Buffer buffer(const void* data, int64_t bytes);
  void send_data(std::span<Entry* const> entries, int rank);
  void wait_sent(int rank, Buffer& buffer);
  void wait_received(int rank, Buffer& buffer);
  /// What it means that the connection to `rank` failed with `error`.
  [[noreturn]] void throw_failure(int rank, const std::string& error);
  std::optional<std::string> farewell_of(int rank);
  void say_farewell();
  void close() noexcept;
  /// Ends waits at their deadline. A timeout of Gloo's own would break all connections, and nobody could be told why.
  void watch_deadlines();

  int rank_;
  int size_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<std::string> farewells_;  ///< one a rank, filled when it gives up
  std::vector<Buffer> farewell_buffers_;
  std::string leaves_;  ///< a byte of each rank
  std::vector<Buffer> leave_buffers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Transfer* transfer_ = nullptr;
  bool is_late_ = false;
  bool is_ending_ = false;
  std::atomic<bool> is_aborted_ = false;
  std::string why_;
  bool is_closed_ = false;
  std::thread watcher_;
};

}  // namespace litespark::dist
