// SPDX-License-Identifier: Apache-2.0
// What ranks of a mesh tell each other last, beside their messages: why they give up, or that they leave. Gloo closes a
// connection by a reset, which takes back what is still on its way: so last words are waited for.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dist/gloo/gloo_mesh.h"

namespace litespark::dist {

/// Longer farewells are cut.
constexpr size_t kLongestFarewell = 510;

class LastWords {
 public:
  /// Listens to all other ranks of `mesh`.
  explicit LastWords(std::shared_ptr<gloo::rendezvous::Context> mesh);

  /// Tells all others why this rank gives up, without waiting. Once.
  void say_farewell(const std::string& why);
  /// Until those of `waiting` have said farewell themselves or are gone, and this rank's has left; 0.2 s at most.
  void await_hearing(std::vector<int> waiting);
  // Of others: any thread.
  bool has_said_farewell(int rank);
  /// Why `rank` gives up, if it has told it whole by now or does within 0.2 s of having begun.
  std::optional<std::string> farewell_of(int rank);
  /// How the connection to `rank` broke, if it did.
  std::optional<std::string> break_of(int rank);
  bool has_left(int rank);

  /// Tells all others that this rank has nothing more to say. Once: later calls do nothing.
  void announce_leave() noexcept;
  /// Until all others have told that they leave, or are gone: 2 s after announce_leave at most.
  void await_leaves() noexcept;

 private:
  GlooBuffer buffer(const void* data, size_t bytes) { return make_buffer(*mesh_, data, static_cast<int64_t>(bytes)); }
  std::vector<int> others() const;

  std::shared_ptr<gloo::rendezvous::Context> mesh_;
  std::vector<std::string> farewells_;        ///< one a rank, filled when it gives up
  std::vector<GlooBuffer> farewell_buffers_;  ///< nullptr: has come whole
  std::mutex farewell_mutex_;                 ///< one waits for one of them at once
  std::string farewell_;                      ///< what this rank says
  std::vector<GlooBuffer> farewell_words_;
  std::string leaves_;  ///< a byte of each rank
  std::vector<GlooBuffer> leave_buffers_;
  std::vector<GlooBuffer> leave_words_;  ///< what this rank said
  std::optional<Deadline> leave_deadline_;
};

}  // namespace litespark::dist
