// SPDX-License-Identifier: Apache-2.0
#include "dist/hierarchical_communicator.h"

#include <array>
#include <cstddef>
#include <utility>

#include "core/checked.h"
#include "dist/comm_call.h"

namespace litespark {
namespace {

using dist::CallKind;

/// Of a tensor's memory anywhere.
constexpr int64_t kScratchAlignment = 256;

/// `count` elements of `whole` from element `first` on, in one row.
Tensor stretch_of(const Tensor& whole, int64_t first, int64_t count) {
  Tensor part = whole;
  part.shape = Shape{count};
  part.data = static_cast<std::byte*>(whole.data) + first * dtype_bytes(whole.dtype);
  return part;
}

/// The groups of one communicator: the ranks of this rank's host, and those at its place on every host.
struct Levels {
  std::unique_ptr<Communicator> inner;
  std::unique_ptr<Communicator> outer;
};

// Calls of the groups that touch the same memory run in the order in which they are issued, so that each may use what
// the one before it left, and nobody waits in between.
class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(std::unique_ptr<Communicator> flat, Levels levels, HierarchyOptions options)
      : flat_(std::move(flat)),
        inner_(std::move(levels.inner)),
        outer_(std::move(levels.outer)),
        options_(std::move(options)) {}

  std::string name() const override { return flat_->name(); }
  int rank() const override { return flat_->rank(); }
  int size() const override { return flat_->size(); }
  bool is_ordered() const override { return false; }
  void set_step(int64_t step) override {
    for (Communicator* part : parts()) part->set_step(step);
  }

  CommTicket all_reduce(const Tensor& data, Reduction reduction) override;
  CommTicket reduce_scatter(const Tensor& shard, const Tensor& data, Reduction reduction) override;
  CommTicket all_gather(const Tensor& data, const Tensor& shard) override;
  CommTicket broadcast(const Tensor& data, int root) override;
  CommTicket all_to_all(const Tensor& received, const Tensor& sent) override {
    return ticket(kFlat, flat_->all_to_all(received, sent));
  }
  CommTicket exchange(const Tensor& received, int source, const Tensor& sent, int destination) override {
    return ticket(kFlat, flat_->exchange(received, source, sent, destination));
  }

  void wait(CommTicket ticket) override {
    if (ticket.id < 0) return flat_->wait(ticket);  // which refuses it
    parts()[static_cast<size_t>(ticket.id % kNumParts)]->wait({ticket.id / kNumParts});
  }
  void check_alive() override {
    for (Communicator* part : parts()) part->check_alive();
  }
  std::unique_ptr<Communicator> split(int color) override {
    return make_hierarchical(flat_->split(color), options_).communicator;
  }
  void barrier() override {
    for (Communicator* part : parts()) part->barrier();  // where calls are compared, each compares its own
  }
  void abort(const std::string& why) override { flat_->abort(why); }

 private:
  /// Whose call a ticket is: the number of it, times kNumParts, plus one of these.
  enum Part : uint8_t { kFlat, kInner, kOuter };
  static constexpr int64_t kNumParts = 3;

  std::array<Communicator*, kNumParts> parts() const { return {flat_.get(), inner_.get(), outer_.get()}; }
  static CommTicket ticket(Part part, CommTicket of_part) { return {of_part.id * kNumParts + part}; }
  bool is_short(const Tensor& data) const { return data.bytes() <= options_.direct_bytes; }
  void check(dist::CommCall call) const {
    dist::check_call(call, {.name = name(), .rank = rank(), .size = size(), .device = call.data.device});
  }
  /// One piece a host, of the size of `shard`: the next stretch of the scratch memory that is long enough. Calls on
  /// other stretches may run beside this one; those on the same memory wait for it.
  Tensor scratch_like(const Tensor& shard);
  /// The pieces of a host's ranks.
  Tensor host_part(const Tensor& data, int host) const {
    const int64_t elements = data.num_elements() / outer_->size();
    return stretch_of(data, host * elements, elements);
  }

  std::unique_ptr<Communicator> flat_;
  std::unique_ptr<Communicator> inner_;
  std::unique_ptr<Communicator> outer_;
  HierarchyOptions options_;
  std::shared_ptr<void> scratch_;
  int64_t scratch_bytes_ = 0;
  int64_t scratch_used_ = 0;  ///< up to where the last call's stretch goes
  CommTicket last_on_scratch_;
};

Tensor HierarchicalCommunicator::scratch_like(const Tensor& shard) {
  const int64_t bytes = shard.bytes() * outer_->size();
  if (bytes > scratch_bytes_) {
    if (scratch_) wait(last_on_scratch_);  // calls under way still use the old one
    scratch_ = options_.allocate ? options_.allocate(bytes)
                                 : std::shared_ptr<void>(new std::byte[static_cast<size_t>(bytes)],
                                                         std::default_delete<std::byte[]>());
    scratch_bytes_ = bytes;
    scratch_used_ = 0;
  }
  int64_t first = round_up(scratch_used_, kScratchAlignment);
  if (first + bytes > scratch_bytes_) first = 0;
  scratch_used_ = first + bytes;
  Tensor scratch = shard;
  scratch.data = static_cast<std::byte*>(scratch_.get()) + first;
  scratch.shape = Shape{shard.num_elements() * outer_->size()};
  return scratch;
}

CommTicket HierarchicalCommunicator::all_reduce(const Tensor& data, Reduction reduction) {
  if (is_short(data)) return ticket(kFlat, flat_->all_reduce(data, reduction));
  const int64_t even = data.num_elements() / inner_->size() * inner_->size();
  const Tensor whole = stretch_of(data, 0, even);
  const Tensor piece = dist::piece_of(whole, inner_->rank(), inner_->size());
  inner_->reduce_scatter(piece, whole, reduction);
  outer_->all_reduce(piece, reduction);
  if (even < data.num_elements()) {
    const Tensor rest = stretch_of(data, even, data.num_elements() - even);
    inner_->all_reduce(rest, reduction);
    outer_->all_reduce(rest, reduction);
  }
  return ticket(kInner, inner_->all_gather(whole, piece));
}

CommTicket HierarchicalCommunicator::reduce_scatter(const Tensor& shard, const Tensor& data, Reduction reduction) {
  check({.kind = CallKind::kReduceScatter, .data = data, .piece = shard, .reduction = reduction});
  if (is_short(data)) return ticket(kFlat, flat_->reduce_scatter(shard, data, reduction));
  const int num_hosts = outer_->size();
  const Tensor of_host = scratch_like(shard);
  for (int host = 0; host < num_hosts; ++host)
    inner_->reduce_scatter(dist::piece_of(of_host, host, num_hosts), host_part(data, host), reduction);
  return last_on_scratch_ = ticket(kOuter, outer_->reduce_scatter(shard, of_host, reduction));
}

CommTicket HierarchicalCommunicator::all_gather(const Tensor& data, const Tensor& shard) {
  check({.kind = CallKind::kAllGather, .data = data, .piece = shard});
  if (is_short(data)) return ticket(kFlat, flat_->all_gather(data, shard));
  const int num_hosts = outer_->size();
  const Tensor at_my_place = scratch_like(shard);
  outer_->all_gather(at_my_place, shard);
  for (int host = 0; host < num_hosts; ++host) {
    last_on_scratch_ =
        ticket(kInner, inner_->all_gather(host_part(data, host), dist::piece_of(at_my_place, host, num_hosts)));
  }
  return last_on_scratch_;
}

CommTicket HierarchicalCommunicator::broadcast(const Tensor& data, int root) {
  check({.kind = CallKind::kBroadcast, .data = data, .root = root});
  if (is_short(data)) return ticket(kFlat, flat_->broadcast(data, root));
  const int root_place = root % inner_->size();
  if (inner_->rank() == root_place) outer_->broadcast(data, root / inner_->size());
  return ticket(kInner, inner_->broadcast(data, root_place));
}

/// Whether all ranks of `flat` say the same of themselves. Collective.
bool do_all_say(Communicator& flat, int what) {
  return flat.split(what)->size() == flat.size();
}

}  // namespace

Hierarchy make_hierarchical(std::unique_ptr<Communicator> flat, const HierarchyOptions& options) {
  Levels levels;
  levels.inner = flat->split(options.host);
  const int ranks_per_host = levels.inner->size();
  const std::string ranks = std::to_string(flat->size()) + (flat->size() == 1 ? " rank" : " ranks");
  if (!do_all_say(*flat, ranks_per_host))
    return {.communicator = std::move(flat), .has_levels = false, .layout = ranks + ", not as many on each host"};
  const int num_hosts = flat->size() / ranks_per_host;
  if (num_hosts == 1) return {.communicator = std::move(flat), .has_levels = false, .layout = ranks + " of one host"};
  if (ranks_per_host == 1)
    return {.communicator = std::move(flat), .has_levels = false, .layout = ranks + ", each on a host of its own"};
  levels.outer = flat->split(levels.inner->rank());
  const bool is_in_order = flat->rank() == levels.outer->rank() * ranks_per_host + levels.inner->rank();
  if (!do_all_say(*flat, is_in_order ? 1 : 0) || !is_in_order)
    return {.communicator = std::move(flat),
            .has_levels = false,
            .layout = ranks + ", those of a host not one after another"};
  const std::string layout = std::to_string(num_hosts) + " hosts of " + std::to_string(ranks_per_host) + " ranks";
  return {.communicator = std::make_unique<HierarchicalCommunicator>(std::move(flat), std::move(levels), options),
          .has_levels = true,
          .ranks_per_host = ranks_per_host,
          .layout = layout};
}

}  // namespace litespark
