// SPDX-License-Identifier: Apache-2.0
// Values are known functions of rank and place, and what must come out is computed beside the call.
#include "communicator_conformance.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

#include "conformance_values.h"

namespace litespark::test {
namespace {

class HostMemory final : public RankMemory {
 public:
  void* allocate(int64_t bytes) override {
    blocks_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(bytes)));
    return blocks_.back().get();
  }
  void write(void* destination, const void* source, int64_t bytes) override {
    if (bytes > 0) std::memcpy(destination, source, static_cast<size_t>(bytes));
  }
  void read(void* destination, const void* source, int64_t bytes) override { write(destination, source, bytes); }
  Device device() const override { return Device::kCpu; }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

constexpr DType kReduced[] = {DType::kF32, DType::kBF16, DType::kF64};
constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kMax};
/// Elements of a piece: none, one, odd, whole vectors, past the limits between short and long calls.
constexpr int64_t kPieces[] = {0, 1, 7, 4096, 10007};

void all_reduce_gives_every_rank_the_reduction(Communicator& communicator, RankMemory& memory) {
  for (const DType dtype : kReduced) {
    for (const Reduction reduction : kReductions) {
      for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{4099}, int64_t{50003}}) {
        const Bench bench(memory, dtype);
        const std::vector<Values> all = values_of_all(dtype, communicator.size(), count);
        const Tensor data = bench.filled(all[static_cast<size_t>(communicator.rank())]);
        communicator.wait(communicator.all_reduce(data, reduction));
        require_reduced(communicator, dtype, reduction, all, bench.read(data), 0,
                        "all_reduce of " + std::to_string(count) + " " + std::string(dtype_name(dtype)));
      }
    }
  }
}

void reduce_scatter_gives_each_rank_its_piece(Communicator& communicator, RankMemory& memory) {
  const int size = communicator.size();
  const int rank = communicator.rank();
  for (const bool is_in_place : {false, true}) {
    for (const DType dtype : kReduced) {
      for (const Reduction reduction : kReductions) {
        for (const int64_t count : kPieces) {
          const Bench bench(memory, dtype);
          const std::vector<Values> all = values_of_all(dtype, size, count * size);
          const Tensor data = bench.filled(all[static_cast<size_t>(rank)]);
          const Tensor shard = is_in_place ? bench.piece(data, rank, size) : bench.make(count);
          communicator.wait(communicator.reduce_scatter(shard, data, reduction));
          require_reduced(communicator, dtype, reduction, all, bench.read(shard), static_cast<size_t>(count * rank),
                          std::string(is_in_place ? "in place, " : "") + "piece of " + std::to_string(count));
          if (!is_in_place && count == 7)
            require_equal(bench.read(data), all[static_cast<size_t>(rank)], "the source is only read");
        }
      }
    }
  }
}

void all_gather_puts_the_shards_in_rank_order(Communicator& communicator, RankMemory& memory) {
  const int size = communicator.size();
  const int rank = communicator.rank();
  for (const bool is_in_place : {false, true}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kU8}) {
      for (const int64_t count : kPieces) {
        const Bench bench(memory, dtype);
        Values expected;
        Values own;
        for (int other = 0; other < size; ++other) {
          Values part = values_of(dtype, other, count);
          if (dtype == DType::kU8) {
            for (double& value : part) value = std::floor(value * 100 + 100);
          }
          expected.insert(expected.end(), part.begin(), part.end());
          if (other == rank) own = part;
        }
        const Tensor data = bench.filled(Values(static_cast<size_t>(count * size), 0.0));
        Tensor shard = bench.filled(own);
        if (is_in_place) {
          const Tensor part = bench.piece(data, rank, size);
          std::vector<std::byte> bytes(static_cast<size_t>(part.bytes()));
          memory.read(bytes.data(), shard.data, part.bytes());
          memory.write(part.data, bytes.data(), part.bytes());
          shard = part;
        }
        communicator.wait(communicator.all_gather(data, shard));
        require_equal(bench.read(data), expected, "all_gather of pieces of " + std::to_string(count));
      }
    }
  }
}

void broadcast_gives_everybody_the_roots_values(Communicator& communicator, RankMemory& memory) {
  for (int root = 0; root < communicator.size(); ++root) {
    for (const int64_t count : kPieces) {
      const Bench bench(memory, DType::kF32);
      const Tensor data = bench.filled(values_of(DType::kF32, communicator.rank(), count));
      communicator.wait(communicator.broadcast(data, root));
      require_equal(bench.read(data), values_of(DType::kF32, root, count), "broadcast of " + std::to_string(count));
    }
  }
}

void all_to_all_sends_each_piece_to_its_rank(Communicator& communicator, RankMemory& memory) {
  const int size = communicator.size();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t count : kPieces) {
      const Bench bench(memory, dtype);
      const Tensor sent = bench.filled(values_of(dtype, communicator.rank(), count * size));
      const Tensor received = bench.make(count * size);
      communicator.wait(communicator.all_to_all(received, sent));
      Values expected;
      for (int other = 0; other < size; ++other) {
        const Values all = values_of(dtype, other, count * size);
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(count * communicator.rank());
        expected.insert(expected.end(), first, first + static_cast<std::ptrdiff_t>(count));
      }
      require_equal(bench.read(received), expected, "all_to_all of pieces of " + std::to_string(count));
    }
  }
}

void exchange_turns_a_ring(Communicator& communicator, RankMemory& memory) {
  const int size = communicator.size();
  const int rank = communicator.rank();
  for (const int64_t count : kPieces) {
    const Bench bench(memory, DType::kF32);
    Tensor own = bench.filled(values_of(DType::kF32, rank, count));
    Tensor next = bench.make(count);
    for (int hop = 1; hop <= size; ++hop) {
      communicator.wait(communicator.exchange(next, (rank + size - 1) % size, own, (rank + 1) % size));
      std::swap(own, next);
      require_equal(bench.read(own), values_of(DType::kF32, (rank + size - hop) % size, count), "a ring's hop");
    }
  }
}

void exchange_passes_along_a_line_without_the_others(Communicator& communicator, RankMemory& memory) {
  const int size = communicator.size();
  const int rank = communicator.rank();
  const Bench bench(memory, DType::kBF16);
  // Message k is shaped by k: rank r has one more to pass on than rank r + 1 has, so ranks make different numbers of
  // calls.
  for (int64_t k = 0; k < size; ++k) {
    const int64_t count = 100 + k;
    const Tensor data = bench.filled(values_of(DType::kBF16, 0, count));
    const Tensor blank = bench.filled(Values(static_cast<size_t>(count), 0.0));
    if (rank > k) continue;
    if (rank > 0) communicator.wait(communicator.exchange(blank, rank - 1, {}, 0));
    const Tensor& have = rank > 0 ? blank : data;
    if (rank < k) communicator.wait(communicator.exchange({}, 0, have, rank + 1));
    require_equal(bench.read(have), values_of(DType::kBF16, 0, count), "what was passed along");
  }
  communicator.barrier();
}

void a_nan_anywhere_comes_out_everywhere(Communicator& communicator, RankMemory& memory) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : kReduced) {
    for (const Reduction reduction : kReductions) {
      for (int bad = 0; bad < communicator.size(); ++bad) {
        const Bench bench(memory, dtype);
        std::vector<Values> all = values_of_all(dtype, communicator.size(), 5);
        for (size_t i = 0; i < all.size(); ++i) {  // beside larger and smaller values, infinities among them
          all[i][2] =
              static_cast<int>(i) == bad ? nan : (i % 2 == 0 ? 1.0 : -1.0) * std::numeric_limits<double>::infinity();
          all[i][3] = static_cast<int>(i) == bad ? -nan : 0.0;
        }
        const Tensor data = bench.filled(all[static_cast<size_t>(communicator.rank())]);
        communicator.wait(communicator.all_reduce(data, reduction));
        const Values found = bench.read(data);
        require(std::isnan(found[2]) && std::isnan(found[3]), "a NaN of rank " + std::to_string(bad) + " was lost");
        require(!std::isnan(found[1]) && !std::isnan(found[4]), "a NaN spread to its neighbours");
      }
    }
  }
}

void results_repeat_bit_for_bit(Communicator& communicator, RankMemory& memory) {
  const Bench bench(memory, DType::kF32);
  const Values own = values_of(DType::kF32, communicator.rank(), 50021);
  Values first;
  for (int round = 0; round < 5; ++round) {
    const Tensor data = bench.filled(own);
    communicator.wait(communicator.all_reduce(data, Reduction::kSum));
    const Values found = bench.read(data);
    if (round == 0) first = found;
    require_equal(found, first, "round " + std::to_string(round));
  }
}

void many_calls_may_be_under_way(Communicator& communicator, RankMemory& memory) {
  const Bench bench(memory, DType::kF32);
  std::vector<Tensor> tensors;
  std::vector<CommTicket> tickets;
  for (int64_t k = 0; k < 40; ++k)
    tensors.push_back(bench.filled(values_of(DType::kF32, communicator.rank(), 50 + 97 * k)));
  for (const Tensor& tensor : tensors) tickets.push_back(communicator.all_reduce(tensor, Reduction::kMax));
  for (size_t k = 0; k < tensors.size(); k += 2) communicator.wait(tickets[tensors.size() - 1 - k]);
  communicator.barrier();
  for (const Tensor& tensor : tensors) {
    const std::vector<Values> all = values_of_all(DType::kF32, communicator.size(), tensor.num_elements());
    require_reduced(communicator, DType::kF32, Reduction::kMax, all, bench.read(tensor), 0, "a call among many");
  }
}

// Neighbours, ranks of equal parity and everybody, their calls under way at the same time.
void groups_talk_among_themselves_beside_the_others(Communicator& communicator, RankMemory& memory) {
  const int size = communicator.size();
  const int rank = communicator.rank();
  const auto pair = communicator.split(rank / 2);
  const auto alike = communicator.split(rank % 2);
  require(pair->rank() == rank % 2 && pair->size() == std::min(2, size - rank / 2 * 2), "a pair's place is wrong");
  require(alike->rank() == rank / 2 && alike->size() == (size + 1 - rank % 2) / 2, "a group's place is wrong");
  const Bench bench(memory, DType::kF32);
  for (int64_t round = 0; round < 3; ++round) {
    const int64_t count = 1000 + 37 * round;
    const Values own = values_of(DType::kF32, rank, count);
    const Tensor in_pair = bench.filled(own);
    const Tensor in_alike = bench.make(count * alike->size());
    const Tensor in_all = bench.filled(own);
    const Tensor sent = bench.filled(own);
    const CommTicket first = pair->all_reduce(in_pair, Reduction::kSum);
    const CommTicket second = communicator.all_reduce(in_all, Reduction::kMax);
    const CommTicket third = alike->all_gather(in_alike, sent);
    alike->wait(third);
    pair->wait(first);
    communicator.wait(second);
    Values sums = values_of(DType::kF32, rank / 2 * 2, count);
    if (pair->size() == 2) {
      const Values other = values_of(DType::kF32, rank / 2 * 2 + 1, count);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] = rounded(DType::kF32, sums[i] + other[i]);
    }
    require_equal(bench.read(in_pair), sums, "a pair's sum");
    Values gathered;
    for (int member = rank % 2; member < size; member += 2) {
      const Values values = values_of(DType::kF32, member, count);
      gathered.insert(gathered.end(), values.begin(), values.end());
    }
    require_equal(bench.read(in_alike), gathered, "what ranks of equal parity gathered");
    require_reduced(communicator, DType::kF32, Reduction::kMax, values_of_all(DType::kF32, size, count),
                    bench.read(in_all), 0, "a maximum over all beside the groups'");
  }
  pair->barrier();
  alike->barrier();
}

void calls_that_no_rank_could_make_are_refused(Communicator& communicator, RankMemory& memory) {
  const Bench bench(memory, DType::kF32);
  const int size = communicator.size();
  const Tensor data = bench.filled(values_of(DType::kF32, 0, 12 * size));
  const auto refuses = [](const std::string& what, const std::function<void()>& call) {
    try {
      call();
    } catch (const InternalError&) {
      return;
    }
    throw std::runtime_error("was not refused: " + what);
  };
  Tensor bytes = data;
  bytes.dtype = DType::kU8;
  Tensor elsewhere = data;
  elsewhere.device = memory.device() == Device::kCpu ? Device::kCuda : Device::kCpu;
  refuses("a sum of bytes", [&] { communicator.all_reduce(bytes, Reduction::kSum); });
  refuses("no tensor", [&] { communicator.all_reduce({}, Reduction::kSum); });
  refuses("a tensor elsewhere", [&] { communicator.all_reduce(elsewhere, Reduction::kSum); });
  refuses("a root that is no rank", [&] { communicator.broadcast(data, size); });
  refuses("a negative root", [&] { communicator.broadcast(data, -1); });
  refuses("a piece of another size", [&] { communicator.reduce_scatter(bench.make(13), data, Reduction::kSum); });
  refuses("a piece of another size", [&] { communicator.all_gather(data, bench.make(11)); });
  refuses("overlapping halves", [&] { communicator.all_to_all(data, data); });
  refuses("a source that is no rank", [&] { communicator.exchange(data, size, {}, 0); });
  refuses("a ticket of no call", [&] { communicator.wait({}); });
  if (size > 1) {
    const int other = (communicator.rank() + 1) % size;
    refuses("another rank's piece",
            [&] { communicator.reduce_scatter(bench.piece(data, other, size), data, Reduction::kSum); });
  }
  communicator.barrier();  // and is still usable
}

// Faults. The last rank misbehaves; the others must end in a CommError that names it.

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  throw std::runtime_error("no CommError");
}

void require_word(const std::string& text, const std::string& word) {
  require(text.find(word) != std::string::npos, "the error does not say \"" + word + "\": " + text);
}

/// Waits so that this rank's host meets a failure: for a device `wait` alone only orders streams.
void finish(Communicator& communicator, CommTicket ticket) {
  communicator.wait(ticket);
  if (communicator.name() == "nccl") communicator.barrier();
}

/// NCCL ends what hangs without knowing for whom it waited.
void require_rank(const Communicator& communicator, const std::string& text, const std::string& rank) {
  if (communicator.name() != "nccl") require_word(text, rank);
}

std::string last_rank(const Communicator& communicator) {
  return "rank " + std::to_string(communicator.size() - 1);
}

void require_unusable(Communicator& communicator, const Bench& bench) {
  const Tensor data = bench.filled({1});
  error_of([&] { communicator.all_reduce(data, Reduction::kSum); });
  error_of([&] { communicator.barrier(); });
}

void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void a_late_rank_ends_the_call_and_is_named(Communicator& communicator, RankMemory& memory) {
  const Bench bench(memory, DType::kF32);
  const Tensor data = bench.filled({1, 2, 3});
  communicator.set_step(41);
  communicator.wait(communicator.all_reduce(data, Reduction::kSum));
  communicator.set_step(42);
  if (communicator.rank() == communicator.size() - 1) {
    pause(1.5 * kFaultTimeoutSeconds);
    // What the others had sent before they gave up may still do for one call.
    error_of([&] {
      for (int call = 0; call < 3; ++call) finish(communicator, communicator.all_reduce(data, Reduction::kSum));
    });
    return;
  }
  const std::string text = error_of([&] { finish(communicator, communicator.all_reduce(data, Reduction::kSum)); });
  require_rank(communicator, text, last_rank(communicator));
  require_word(text, "all_reduce");
  require_word(text, "step 42");
  require_unusable(communicator, bench);
}

void an_abort_ends_calls_under_way_everywhere(Communicator& communicator, RankMemory& memory) {
  const Bench bench(memory, DType::kF32);
  const Tensor data = bench.filled({1, 2, 3});
  communicator.barrier();
  if (communicator.rank() == communicator.size() - 1) {
    pause(0.05);
    communicator.abort("the test wants it");
  } else {
    error_of([&] { finish(communicator, communicator.all_reduce(data, Reduction::kSum)); });
  }
  require_unusable(communicator, bench);
}

void a_rank_that_makes_another_call_is_named(Communicator& communicator, const Tensor& data, const Tensor& other,
                                             const std::function<CommTicket(const Tensor& data)>& usual,
                                             const std::function<CommTicket(const Tensor& data)>& unusual) {
  const bool is_odd = communicator.rank() == communicator.size() - 1;
  const std::string text = error_of([&] { communicator.wait(is_odd ? unusual(other) : usual(data)); });
  require_word(text, is_odd ? "rank" : last_rank(communicator));
}

void another_kind_of_call_is_found(Communicator& communicator, RankMemory& memory) {
  const Bench bench(memory, DType::kF32);
  const Tensor data = bench.filled({1, 2, 3});
  a_rank_that_makes_another_call_is_named(
      communicator, data, data, [&](const Tensor& tensor) { return communicator.all_reduce(tensor, Reduction::kSum); },
      [&](const Tensor& tensor) { return communicator.all_reduce(tensor, Reduction::kMax); });
  require_unusable(communicator, bench);
}

void another_shape_is_found(Communicator& communicator, RankMemory& memory) {
  const Bench bench(memory, DType::kF32);
  const auto call = [&](const Tensor& tensor) { return communicator.all_reduce(tensor, Reduction::kSum); };
  a_rank_that_makes_another_call_is_named(communicator, bench.filled({1, 2, 3}), bench.filled({1, 2, 3, 4}), call,
                                          call);
  require_unusable(communicator, bench);
}

void another_dtype_is_found(Communicator& communicator, RankMemory& memory) {
  const Tensor data = Bench(memory, DType::kF32).filled({1, 2, 3});
  const Tensor other = Bench(memory, DType::kBF16).filled({1, 2, 3});
  const auto call = [&](const Tensor& tensor) { return communicator.all_reduce(tensor, Reduction::kSum); };
  a_rank_that_makes_another_call_is_named(communicator, data, other, call, call);
}

void an_abort_ends_the_groups_too(Communicator& communicator, RankMemory& memory) {
  const Bench bench(memory, DType::kF32);
  const Tensor data = bench.filled({1, 2, 3});
  const auto group = communicator.split(0);
  group->barrier();
  if (communicator.rank() == communicator.size() - 1) {
    pause(0.05);
    communicator.abort("the test wants it");
  } else {
    error_of([&] { finish(*group, group->all_reduce(data, Reduction::kSum)); });
  }
  require_unusable(*group, bench);
}

void a_rank_that_leaves_is_named(Communicator& communicator, RankMemory& memory) {
  const Bench bench(memory, DType::kF32);
  const Tensor data = bench.filled({1, 2, 3});
  const int last = communicator.size() - 1;
  if (communicator.rank() == last) return communicator.barrier();
  // Another rank may notice, and give up, while this one has not heard yet that all came to the barrier.
  const std::string text = error_of([&] {
    communicator.barrier();
    finish(communicator, communicator.broadcast(data, last));
  });
  require_rank(communicator, text, last_rank(communicator));
}

}  // namespace

std::unique_ptr<RankMemory> make_host_memory() {
  return std::make_unique<HostMemory>();
}

const std::vector<ConformanceCase>& conformance_cases() {
  static const std::vector<ConformanceCase> cases = {
      {"AllReduceGivesEveryRankTheReduction", all_reduce_gives_every_rank_the_reduction},
      {"ReduceScatterGivesEachRankItsPiece", reduce_scatter_gives_each_rank_its_piece},
      {"AllGatherPutsTheShardsInRankOrder", all_gather_puts_the_shards_in_rank_order},
      {"BroadcastGivesEverybodyTheRootsValues", broadcast_gives_everybody_the_roots_values},
      {"AllToAllSendsEachPieceToItsRank", all_to_all_sends_each_piece_to_its_rank},
      {"ExchangeTurnsARing", exchange_turns_a_ring},
      {"ExchangePassesAlongALineWithoutTheOthers", exchange_passes_along_a_line_without_the_others},
      {"ANanAnywhereComesOutEverywhere", a_nan_anywhere_comes_out_everywhere},
      {"ResultsRepeatBitForBit", results_repeat_bit_for_bit},
      {"ManyCallsMayBeUnderWay", many_calls_may_be_under_way},
      {"GroupsTalkAmongThemselvesBesideTheOthers", groups_talk_among_themselves_beside_the_others},
      {"CallsThatNoRankCouldMakeAreRefused", calls_that_no_rank_could_make_are_refused},
  };
  return cases;
}

const std::vector<FaultCase>& fault_cases() {
  static const std::vector<FaultCase> cases = {
      {"ALateRankEndsTheCallAndIsNamed", a_late_rank_ends_the_call_and_is_named},
      {"AnAbortEndsCallsUnderWayEverywhere", an_abort_ends_calls_under_way_everywhere},
      {"AnAbortEndsTheGroupsToo", an_abort_ends_the_groups_too},
      {"AnotherKindOfCallIsFound", another_kind_of_call_is_found, true},
      {"AnotherShapeIsFound", another_shape_is_found, true},
      {"AnotherDtypeIsFound", another_dtype_is_found, true},
      {"ARankThatLeavesIsNamed", a_rank_that_leaves_is_named},
  };
  return cases;
}

}  // namespace litespark::test
