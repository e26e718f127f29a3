// SPDX-License-Identifier: Apache-2.0
// Gloo's TCP connections between all ranks, each of which has proved to the others that it knows the job's secret.
#pragma once

#include <gloo/rendezvous/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "dist/link.h"
#include "dist/rendezvous.h"

namespace litespark::dist {

using GlooBuffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

// Kinds of messages between two ranks; each keeps its order.
constexpr uint64_t kLabelSlot = 1;
constexpr uint64_t kDataSlot = 2;
constexpr uint64_t kFarewellSlot = 3;
constexpr uint64_t kNonceSlot = 4;
constexpr uint64_t kProofSlot = 5;
constexpr uint64_t kLeaveSlot = 6;

/// Past every deadline of ours.
constexpr auto kLongest = std::chrono::hours(1000);
/// As Gloo takes it: at least 1 ms, since 0 and less would mean no limit.
std::chrono::milliseconds left_until(Deadline deadline);

/// Whose thread serves connections at `own_address`.
std::shared_ptr<gloo::transport::Device> make_gloo_device(const std::string& own_address);

/// Connects all ranks under `name`, of which each pair proves the secret. Throws LinkFailure.
std::shared_ptr<gloo::rendezvous::Context> connect_mesh(Rendezvous& rendezvous, const std::string& name,
                                                        const std::string& secret,
                                                        std::shared_ptr<gloo::transport::Device> device,
                                                        Deadline deadline);
/// Ends all connections, where there are any.
void close_mesh(gloo::rendezvous::Context& mesh) noexcept;

/// Over memory that stays where it is; what is sent from it is not written to.
GlooBuffer make_buffer(gloo::rendezvous::Context& mesh, const void* data, int64_t bytes);

}  // namespace litespark::dist
