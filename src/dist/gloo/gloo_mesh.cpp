// SPDX-License-Identifier: Apache-2.0
#include "dist/gloo/gloo_mesh.h"

#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "dist/sha256.h"
#include "dist/short_slices.h"

namespace litespark::dist {
namespace {

/// Addresses of peers come from the rendezvous, whose messages are sealed: nobody can plant one.
class RendezvousStore final : public gloo::rendezvous::Store {
 public:
  RendezvousStore(Rendezvous& rendezvous, std::string prefix, Deadline deadline)
      : rendezvous_(rendezvous), prefix_(std::move(prefix)), deadline_(deadline) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    rendezvous_.set(prefix_ + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = rendezvous_.get(prefix_ + key, deadline_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  Rendezvous& rendezvous_;
  std::string prefix_;
  Deadline deadline_;
};

std::string proof(const std::string& secret, int from, int to, const std::string& nonce_from,
                  const std::string& nonce_to) {
  const std::string message =
      Writer().text("gloo pair").number(from).number(to).text(nonce_from).text(nonce_to).bytes();
  return std::string(view_of(hmac_sha256(secret, message)));
}

void prove_each_other(gloo::rendezvous::Context& mesh, const std::string& secret, Deadline deadline) {
  const int own_rank = mesh.rank;
  const int size = mesh.size;
  std::vector<std::string> texts(static_cast<size_t>(size) * 4);
  const auto place = [&](int kind, int rank) -> std::string& {
    return texts[static_cast<size_t>(kind) * static_cast<size_t>(size) + static_cast<size_t>(rank)];
  };
  enum { kOwnNonce, kTheirNonce, kOwnProof, kTheirProof };
  const auto swap = [&](uint64_t slot, int own, int theirs) {
    std::vector<GlooBuffer> out(static_cast<size_t>(size));
    std::vector<GlooBuffer> in(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      if (rank == own_rank) continue;
      const auto at = static_cast<size_t>(rank);
      std::string& received = place(theirs, rank);
      received.resize(place(own, rank).size());
      out[at] = make_buffer(mesh, place(own, rank).data(), static_cast<int64_t>(place(own, rank).size()));
      in[at] = make_buffer(mesh, received.data(), static_cast<int64_t>(received.size()));
      out[at]->send(rank, slot);
      in[at]->recv(rank, slot);
    }
    for (int rank = 0; rank < size; ++rank) {
      if (rank == own_rank) continue;
      in[static_cast<size_t>(rank)]->waitRecv(left_until(deadline));
      out[static_cast<size_t>(rank)]->waitSend(left_until(deadline));
    }
  };
  for (int rank = 0; rank < size; ++rank) place(kOwnNonce, rank) = random_bytes(kNonceBytes);
  swap(kNonceSlot, kOwnNonce, kTheirNonce);
  for (int rank = 0; rank < size; ++rank)
    place(kOwnProof, rank) = proof(secret, own_rank, rank, place(kOwnNonce, rank), place(kTheirNonce, rank));
  swap(kProofSlot, kOwnProof, kTheirProof);
  for (int rank = 0; rank < size; ++rank) {
    if (rank == own_rank) continue;
    const std::string expected = proof(secret, rank, own_rank, place(kTheirNonce, rank), place(kOwnNonce, rank));
    if (!is_equal_in_constant_time(place(kTheirProof, rank), expected))
      throw LinkFailure("who answers as rank " + std::to_string(rank) + " does not know the job's secret");
  }
}

}  // namespace

std::chrono::milliseconds left_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

std::shared_ptr<gloo::transport::Device> make_gloo_device(const std::string& own_address) {
  gloo::transport::tcp::attr where(own_address.c_str());
  const ShortSlices of_its_thread;
  return gloo::transport::tcp::CreateDevice(where);
}

std::shared_ptr<gloo::rendezvous::Context> connect_mesh(Rendezvous& rendezvous, const std::string& name,
                                                        const std::string& secret,
                                                        std::shared_ptr<gloo::transport::Device> device,
                                                        Deadline deadline) {
  auto mesh = std::make_shared<gloo::rendezvous::Context>(rendezvous.place().rank, rendezvous.place().size);
  try {
    mesh->setTimeout(left_until(deadline));
    RendezvousStore store(rendezvous, "gloo/" + name + "/", deadline);
    mesh->connectFullMesh(store, device);
    prove_each_other(*mesh, secret, deadline);
  } catch (const LinkFailure&) {
    close_mesh(*mesh);
    throw;
  } catch (const std::exception& error) {
    close_mesh(*mesh);
    throw LinkFailure(std::string("the ranks cannot be connected: ") + error.what());
  }
  return mesh;
}

void close_mesh(gloo::rendezvous::Context& mesh) noexcept {
  try {
    mesh.closeConnections();
  } catch (const std::exception&) {
    // There were none yet.
  }
}

GlooBuffer make_buffer(gloo::rendezvous::Context& mesh, const void* data, int64_t bytes) {
  return mesh.createUnboundBuffer(const_cast<void*>(data), static_cast<size_t>(bytes));
}

}  // namespace litespark::dist
