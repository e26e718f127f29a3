// SPDX-License-Identifier: Apache-2.0
#include "block.h"

#include <ucontext.h>

#include <array>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

EmulatedIndex threadIdx;
EmulatedIndex blockDim;
EmulatedBlockIndex blockIdx;

namespace litespark::emulated {
namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr int kWarpSize = 32;

struct Groups {
  std::vector<std::function<void()>> open;
  std::deque<std::vector<std::function<void()>>> closed;
};

struct Thread {
  ucontext_t context = {};  ///< of the start
  std::jmp_buf place = {};  ///< later on: a jump, unlike a context, asks nothing of the system
  bool started = false;
  bool done = false;
  Groups products;
  int open_copies = 0;
  std::deque<std::shared_ptr<int>> copies;  ///< of each group, how many are still to be done
};

struct Meeting {
  int arrived = 0;
  uint64_t generation = 0;
};

struct Barrier {
  uint32_t arrivals = 0, pending = 0;
  int64_t bytes = 0;
  uint32_t phase = 0;
};

/// Asynchronous work, and the block whose memory it means.
struct Action {
  size_t rank = 0;
  std::function<void()> work;
};

/// The blocks of a cluster; one alone is a cluster of one.
struct Cluster {
  std::jmp_buf scheduler = {};
  std::vector<Thread> threads;  ///< of all blocks, one after another
  size_t threads_per_block = 0;
  GridPlace place;
  std::mt19937 random;
  std::function<void()> body;
  size_t current = 0;  ///< thread
  size_t rank = 0;     ///< block whose memory and barriers are meant
  uint64_t progress = 0;
  std::string failure;
  std::vector<Action> pending;
  std::map<std::pair<size_t, int>, Meeting> meetings;
  std::map<std::pair<size_t, uint32_t>, Barrier> barriers;
  std::vector<std::array<uint64_t, kWarpSize>> lanes;
  std::vector<std::array<uint64_t, kWarpSize>> seen;
};

/// Whole multiples of 1024, so that every block's memory is aligned.
constexpr size_t kSharedStride = (kSharedBytes + 1023) / 1024 * 1024;
alignas(1024) unsigned char shared_bytes[kMaxClusterBlocks * kSharedStride];
Cluster* block = nullptr;
/// Of meetings among all blocks of a cluster.
constexpr size_t kAllBlocks = kMaxClusterBlocks;

Thread& self() {
  return block->threads[block->current];
}

/// Memory of the i-th coroutine's stack, kept for the blocks to come.
unsigned char* stack_of(size_t i) {
  static std::vector<std::unique_ptr<unsigned char[]>> stacks;
  while (stacks.size() <= i) stacks.push_back(std::make_unique_for_overwrite<unsigned char[]>(kStackBytes));
  return stacks[i].get();
}

void back_to_scheduler() {
  if (_setjmp(self().place) == 0) std::longjmp(block->scheduler, 1);
}

/// Comes back when the current thread has gone back to the scheduler.
[[gnu::noinline]] void go_on() {
  if (_setjmp(block->scheduler) != 0) return;
  Thread& thread = self();
  if (thread.started) std::longjmp(thread.place, 1);
  thread.started = true;
  setcontext(&thread.context);
}

void start_thread() {
  block->body();
  self().done = true;
  ++block->progress;
  back_to_scheduler();
}

void give_stack(Thread& thread, unsigned char* stack) {
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = stack;
  thread.context.uc_stack.ss_size = kStackBytes;
  makecontext(&thread.context, start_thread, 0);
}

/// Does some of the asynchronous work, in any order.
void do_pending(std::mt19937& random, bool all) {
  for (size_t i = 0; i < block->pending.size();) {
    if (!all && random() % 4 != 0) {
      ++i;
      continue;
    }
    const Action action = std::move(block->pending[i]);
    block->pending.erase(block->pending.begin() + static_cast<std::ptrdiff_t>(i));
    block->rank = action.rank;
    action.work();
    ++block->progress;
  }
}

}  // namespace

unsigned char* shared_memory() {
  return shared_bytes + (block == nullptr ? 0 : block->rank) * kSharedStride;
}

std::string run_block(int threads, unsigned seed, const std::function<void()>& body) {
  return run_cluster(1, {}, threads, seed, body);
}

std::string run_cluster(int blocks, GridPlace place, int threads, unsigned seed, const std::function<void()>& body) {
  Cluster state;
  block = &state;
  state.threads = std::vector<Thread>(static_cast<size_t>(blocks * threads));
  state.threads_per_block = static_cast<size_t>(threads);
  state.place = place;
  state.body = body;
  state.lanes.resize(state.threads.size() / kWarpSize);
  state.seen.resize(state.lanes.size());
  std::memset(shared_bytes, 0xff, static_cast<size_t>(blocks) * kSharedStride);
  for (size_t i = 0; i < state.threads.size(); ++i) give_stack(state.threads[i], stack_of(i));
  std::mt19937& random = state.random;
  random.seed(seed);
  size_t alive = state.threads.size();
  while (alive > 0 && state.failure.empty()) {
    const uint64_t before = state.progress;
    const size_t first = random() % state.threads.size() / kWarpSize * kWarpSize;
    for (size_t i = 0; i < state.threads.size() && state.failure.empty(); ++i) {
      state.current = (first + i) % state.threads.size();
      if (self().done) continue;
      state.rank = state.current / state.threads_per_block;
      threadIdx.x = static_cast<unsigned>(state.current % state.threads_per_block);
      go_on();
      if (self().done) --alive;
    }
    do_pending(random, alive == 0);
    if (state.progress == before && state.pending.empty() && alive > 0) state.failure = "deadlock";
  }
  block = nullptr;
  return state.failure;
}

void wait_until(const std::function<bool()>& ready) {
  while (!ready()) back_to_scheduler();
  ++block->progress;
}

void fail(const std::string& message) {
  block->failure = message;
  while (true) back_to_scheduler();
}

void later(std::function<void()> action) {
  block->pending.push_back({.rank = block->rank, .work = std::move(action)});
}

GridPlace place_in_grid() {
  return block->place;
}

uint32_t rank_in_cluster() {
  return static_cast<uint32_t>(block->rank);
}

uint32_t blocks_in_cluster() {
  return static_cast<uint32_t>(block->threads.size() / block->threads_per_block);
}

void in_block(uint32_t rank, const std::function<void()>& action) {
  const size_t own = block->rank;
  if (rank >= blocks_in_cluster()) fail("a block outside of the cluster");
  block->rank = rank;
  action();
  block->rank = own;
}

namespace {

void arrive_in(Meeting& meeting, int threads) {
  if (++meeting.arrived < threads) return;
  meeting.arrived = 0;
  ++meeting.generation;
  ++block->progress;
}

void meet_in(size_t rank, int key, int threads) {
  Meeting& meeting = block->meetings[{rank, key}];
  const uint64_t generation = meeting.generation;
  arrive_in(meeting, threads);
  wait_until([&] { return meeting.generation != generation; });
}

}  // namespace

void meet(int key, int threads) {
  meet_in(block->rank, key, threads);
}

void arrive(int key, int threads) {
  arrive_in(block->meetings[{block->rank, key}], threads);
}

void meet_all() {
  meet_in(kAllBlocks, 0, static_cast<int>(block->threads.size()));
}

const uint64_t* exchange(uint64_t value) {
  const size_t warp = block->current / kWarpSize;
  const int key = 1000 + static_cast<int>(warp);
  block->lanes[warp][block->current % kWarpSize] = value;
  meet(key, kWarpSize);
  const auto values = block->lanes[warp];
  meet(key, kWarpSize);
  block->seen[warp] = values;
  return block->seen[warp].data();
}

void barrier_create(uint32_t address, uint32_t arrivals) {
  block->barriers[{block->rank, address}] = {.arrivals = arrivals, .pending = arrivals};
}

namespace {

Barrier& barrier_at(uint32_t address) {
  const auto found = block->barriers.find({block->rank, address});
  if (found == block->barriers.end()) fail("a barrier that was not initialised");
  return found->second;
}

void flip_when_complete(Barrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.arrivals;
  ++block->progress;
}

}  // namespace

void barrier_arrive(uint32_t address, int64_t bytes_announced) {
  Barrier& barrier = barrier_at(address);
  if (barrier.pending == 0) fail("more arrivals than the barrier expects");
  barrier.bytes += bytes_announced;
  --barrier.pending;
  flip_when_complete(barrier);
}

void barrier_complete(uint32_t address, int64_t bytes) {
  Barrier& barrier = block->barriers.at({block->rank, address});
  barrier.bytes -= bytes;
  flip_when_complete(barrier);
}

bool barrier_passed(uint32_t address, uint32_t parity) {
  return barrier_at(address).phase != parity;
}

void add_product(std::function<void()> product) {
  self().products.open.push_back(std::move(product));
}

void commit_products() {
  Groups& groups = self().products;
  groups.closed.push_back(std::move(groups.open));
  groups.open.clear();
}

void wait_products(int pending) {
  // A warp may stand still anywhere: what it has given away too early may be overwritten meanwhile.
  for (; block->random() % 4 == 0; ++block->progress) back_to_scheduler();
  Groups& groups = self().products;
  while (groups.closed.size() > static_cast<size_t>(pending)) {
    for (const auto& product : groups.closed.front()) product();
    groups.closed.pop_front();
  }
}

void add_bulk(std::function<void()> copy) {
  Thread& thread = self();
  if (thread.open_copies == 0) thread.copies.push_back(std::make_shared<int>(0));
  ++thread.open_copies;
  const std::shared_ptr<int> group = thread.copies.back();
  ++*group;
  later([copy = std::move(copy), group] {
    copy();
    --*group;
  });
}

void commit_bulk() {
  self().open_copies = 0;
}

void wait_bulk(int pending) {
  const Thread& thread = self();
  wait_until([&] {
    for (size_t i = 0; i + static_cast<size_t>(pending) < thread.copies.size(); ++i) {
      if (*thread.copies[i] > 0) return false;
    }
    return true;
  });
}

}  // namespace litespark::emulated

namespace emulated = litespark::emulated;

void __syncthreads() {
  emulated::meet(0, static_cast<int>(emulated::block->threads_per_block));
}
void __syncwarp() {
  emulated::exchange(0);
}
int __shfl_sync(uint32_t, int value, int lane) {
  return static_cast<int>(emulated::exchange(static_cast<uint64_t>(static_cast<int64_t>(value)))[lane]);
}
float __shfl_sync(uint32_t, float value, int lane) {
  return std::bit_cast<float>(static_cast<uint32_t>(emulated::exchange(std::bit_cast<uint32_t>(value))[lane]));
}
int __shfl_up_sync(uint32_t, int value, int distance) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint64_t* const values = emulated::exchange(static_cast<uint64_t>(static_cast<int64_t>(value)));
  return static_cast<int>(values[lane >= distance ? lane - distance : lane]);
}
uint32_t __shfl_xor_sync(uint32_t, uint32_t value, int distance) {
  const unsigned lane = threadIdx.x % 32;
  return static_cast<uint32_t>(emulated::exchange(value)[lane ^ static_cast<unsigned>(distance)]);
}
float __shfl_xor_sync(uint32_t mask, float value, int distance) {
  return std::bit_cast<float>(__shfl_xor_sync(mask, std::bit_cast<uint32_t>(value), distance));
}
int __reduce_add_sync(uint32_t, int value) {
  const uint64_t* const values = emulated::exchange(std::bit_cast<uint32_t>(value));
  int result = 0;
  for (int lane = 0; lane < 32; ++lane) result += std::bit_cast<int>(static_cast<uint32_t>(values[lane]));
  return result;
}
uint32_t __ballot_sync(uint32_t, bool value) {
  const uint64_t* const values = emulated::exchange(value ? 1 : 0);
  uint32_t result = 0;
  for (int lane = 0; lane < 32; ++lane) result |= static_cast<uint32_t>(values[lane] & 1) << lane;
  return result;
}
int __ffs(int value) {
  return value == 0 ? 0 : std::countr_zero(static_cast<uint32_t>(value)) + 1;
}
