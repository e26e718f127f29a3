// SPDX-License-Identifier: Apache-2.0
// Where ranks meet: which calls stand on which tape, that each is waited for where it was started, and that nobody
// touches what a call owns.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "spec/communication_tape.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

Program program_of(bool packs, bool accumulates = false, int64_t rank = 1) {
  ProgramOptions options = small_options();
  options.compute = DType::kBF16;
  options.accumulates = accumulates;
  options.data_ranks = 2;
  options.data_rank = rank;
  return make_llama_program(small_config(), options, PlainSizes(packs));
}

/// Two data ranks of `tensor` ranks each, with or without shared gradients.
Program program_of_layout(int64_t tensor, bool shards_gradients, bool accumulates, int64_t world_rank = 0,
                          int64_t stretches = 2, Compression compression = Compression::kNone,
                          int64_t bucket_elements = 0) {
  ProgramOptions options = small_options();
  options.accumulates = accumulates;
  options.data_ranks = 2;
  options.tensor_ranks = tensor;
  options.tensor_stretches = stretches;
  options.data_rank = world_rank / tensor;
  options.tensor_rank = world_rank % tensor;
  options.shards_gradients = shards_gradients;
  options.compression = compression;
  options.bucket_elements = bucket_elements;
  ModelConfig config = small_config();
  config.num_key_value_heads = 1;
  config.has_qkv_bias = true;
  return make_llama_program(config, options, PlainSizes(shards_gradients));
}

size_t count(const Program& program, Phase phase, std::string_view name) {
  const auto& entries = program.tape(phase)->entries();
  return static_cast<size_t>(
      std::count_if(entries.begin(), entries.end(), [&](const TapeEntry& entry) { return op_name(entry.op) == name; }));
}

struct Bytes {
  int32_t root = -1;
  int64_t first = 0, end = 0;
  bool meets(const Bytes& other) const { return root == other.root && first < other.end && other.first < end; }
};

Bytes bytes_of(const Program& program, TensorId id) {
  const auto [root, offset] = program.tensors.root(id);
  return {root.index, offset, offset + program.tensors[id].bytes()};
}

template <class Call>
TensorId owned_by(const Call& call) {
  if constexpr (std::is_same_v<Call, op::Send<TensorId>>) {
    return call.sent;
  } else if constexpr (std::is_same_v<Call, op::Receive<TensorId>>) {
    return call.received;
  } else if constexpr (std::is_same_v<Call, op::PassOn<TensorId>>) {
    return call.received;
  } else {
    return call.data;
  }
}

/// Walks a tape and finds ops that touch what a call under way owns.
class Watcher {
 public:
  explicit Watcher(const Program& program) : program_(program) {}

  void walk(const Tape& tape) {
    for (const TapeEntry& entry : tape.entries()) {
      std::visit([&](const auto& op) { see(op); }, entry.op);
    }
    EXPECT_TRUE(under_way_.empty()) << tape.phase() << " leaves calls under way";
  }
  int64_t starts() const { return starts_; }

 private:
  template <class Op>
  void see(const Op& op) {
    if constexpr (std::is_same_v<Op, op::CommWait<TensorId>>) {
      ASSERT_EQ(under_way_.count(op.call), 1U) << "waits for a call that is not under way";
      under_way_.erase(op.call);
    } else {
      name_ = Op::kName;
      static_cast<void>(op.map(*this));
      if constexpr (op::Communication<Op>) {
        ++starts_;
        ASSERT_EQ(under_way_.count(op.call), 0U) << "two calls of one number";
        under_way_[op.call] = bytes_of(program_, owned_by(op));
      }
    }
  }

 public:
  TensorId in(std::string_view, TensorId id) const { return touch(id); }
  TensorId out(std::string_view, TensorId id) const { return touch(id); }
  TensorId inout(std::string_view, TensorId id) const { return touch(id); }

 private:
  TensorId touch(TensorId id) const {
    if (!id.has_value()) return id;
    for (const auto& [number, call] : under_way_) {
      EXPECT_FALSE(call.meets(bytes_of(program_, id)))
          << name_ << " touches " << program_.tensors[id].name << " during call " << number;
    }
    return id;
  }

  const Program& program_;
  std::map<int, Bytes> under_way_;
  std::string_view name_;
  int64_t starts_ = 0;
};

TEST(CommunicationTape, NobodyTouchesWhatACallOwnsAndEveryTapeWaitsForItsCalls) {
  for (const bool packs : {false, true}) {
    for (const bool accumulates : {false, true}) {
      const Program program = program_of(packs, accumulates);
      int64_t starts = 0;
      for (const auto& [phase, tape] : program.tapes) {
        Watcher watcher(program);
        watcher.walk(tape);
        starts += watcher.starts();
      }
      EXPECT_GT(starts, 0);
    }
  }
}

TEST(CommunicationTape, NobodyTouchesWhatACallOfAPipelineStageOwns) {
  ModelConfig config = small_config();
  config.tie_word_embeddings = true;
  for (int64_t rank = 0; rank < 12; ++rank) {
    ProgramOptions options = small_options();
    options.accumulates = true;
    options.micro_batches = 4;
    options.stages = 3;
    options.data_ranks = options.tensor_ranks = 2;
    options.take_place(rank);
    EXPECT_EQ(options.world_rank(), rank);
    const Program program = make_llama_program(config, options, PlainSizes());
    for (const auto& [phase, tape] : program.tapes) Watcher(program).walk(tape);
  }
}

/// Two replicas of `context` ranks of two tensor ranks, on two stages where `staged`.
Program program_with_context(int64_t context, bool staged, int64_t world_rank, bool shards = false) {
  ProgramOptions options = small_options();
  options.batch.num_tokens = 16 * context;
  options.compute = DType::kBF16;
  options.recompute = Recompute::kAttention;
  options.accumulates = true;
  options.micro_batches = 2;
  options.stages = staged ? 2 : 1;
  options.context_ranks = context;
  options.data_ranks = 2 * context;
  options.tensor_ranks = 2;
  options.shards_gradients = shards;
  options.take_place(world_rank);
  return make_llama_program(small_config(), options, PlainSizes());
}

/// Ranks that share micro-batches make the same calls in the same order, so no ring ever waits for itself.
TEST(CommunicationTape, ContextRanksPassOnWithoutTouchingWhatTravelsAndInOneOrder) {
  const auto passed_on = [](const Program& program, const Tape& tape) {
    std::vector<std::string> all;
    for (const TapeEntry& entry : tape.entries()) {
      std::visit(
          [&]<class Op>(const Op& op) {
            if constexpr (std::is_same_v<Op, op::PassOn<TensorId>>) {
              EXPECT_EQ(program.tensors[op.sent].shape.to_string(), program.tensors[op.received].shape.to_string());
              all.push_back("pass " + program.tensors[op.sent].shape.to_string());
            } else if constexpr (op::Communication<Op>) {
              all.push_back(std::string(Op::kName) + std::to_string(op.call));
            }
          },
          entry.op);
    }
    return all;
  };
  for (const int64_t context : {2, 3, 4}) {
    for (const bool staged : {false, true}) {
      for (const bool shards : {false, true}) {
        const Program first = program_with_context(context, staged, 0, shards);
        for (int64_t rank = 0; rank < context; ++rank) {
          const Program program = program_with_context(context, staged, 2 * rank, shards);
          EXPECT_EQ(program.memory->total_bytes(), first.memory->total_bytes());
          for (const auto& [phase, tape] : program.tapes) {
            Watcher(program).walk(tape);
            EXPECT_EQ(passed_on(program, tape), passed_on(first, *first.tape(phase)));
          }
        }
      }
    }
  }
}

TEST(CommunicationTape, NobodyTouchesWhatACallOwnsInAnyLayout) {
  for (const int64_t tensor : {1, 2, 4}) {
    for (const bool shards : {false, true}) {
      for (const int64_t stretches : {1, 2, 4}) {
        for (const int64_t bucket_elements : {0, 1}) {
          const Program program =
              program_of_layout(tensor, shards, true, 0, stretches, Compression::kNone, bucket_elements);
          for (const auto& [phase, tape] : program.tapes) Watcher(program).walk(tape);
        }
      }
    }
  }
}

/// The last op that names a tensor's memory, per call: what a call reads or fills must keep its memory until its wait.
int expect_memory_until_the_wait(const Program& program) {
  int checked = 0;
  for (const auto& [phase, tape] : program.tapes) {
    const PhaseLifetimes lifetimes = tape_lifetimes(tape, program.tensors);
    const auto last_use = [&](TensorId id) {
      const TensorId root = program.tensors.root(id).first;
      const auto found = std::find_if(lifetimes.lifetimes.begin(), lifetimes.lifetimes.end(),
                                      [&](const Lifetime& lifetime) { return lifetime.tensor == root; });
      return found == lifetimes.lifetimes.end() ? INT32_MAX : found->last;  // persistent
    };
    std::map<int, std::vector<TensorId>> under_way;
    int32_t index = 0;
    for (const TapeEntry& entry : tape.entries()) {
      if (const auto* reduce = std::get_if<op::ReduceScatter<TensorId>>(&entry.op)) {
        under_way[reduce->call] = {reduce->data, reduce->shard};
      } else if (const auto* pieces = std::get_if<op::AllToAll<TensorId>>(&entry.op)) {
        under_way[pieces->call] = {pieces->data, pieces->sent};
      } else if (const auto* gather = std::get_if<op::AllGather<TensorId>>(&entry.op)) {
        under_way[gather->call] = {gather->data, gather->shard};
      } else if (const auto* sum = std::get_if<op::AllReduce<TensorId>>(&entry.op)) {
        under_way[sum->call] = {sum->data};
      } else if (const auto* hop = std::get_if<op::PassOn<TensorId>>(&entry.op)) {
        under_way[hop->call] = {hop->received, hop->sent};
      } else if (const auto* wait = std::get_if<op::CommWait<TensorId>>(&entry.op)) {
        for (const TensorId id : under_way[wait->call]) EXPECT_GE(last_use(id), index) << program.tensors[id].name;
        ++checked;
      }
      ++index;
    }
  }
  return checked;
}

TEST(CommunicationTape, TemporaryTensorsOfACallKeepTheirMemoryUntilItsWait) {
  EXPECT_GT(expect_memory_until_the_wait(program_of_layout(2, true, true)), 50);
  EXPECT_GT(expect_memory_until_the_wait(program_of_layout(2, true, true, 0, 2, Compression::kBF16, 1)), 80);
  EXPECT_GT(expect_memory_until_the_wait(program_with_context(3, false, 0)), 50);
  for (const bool shards : {false, true}) {
    const Program program = program_of_layout(2, shards, true, 0, 2, Compression::kFP16);
    EXPECT_GT(expect_memory_until_the_wait(program), 50);
    for (const auto& [phase, tape] : program.tapes) Watcher(program).walk(tape);
  }
}

int64_t bytes_of_calls(const Program& program, Phase phase) {
  int64_t bytes = 0;
  for (const auto& call : ops_of<op::ReduceScatter>(*program.tape(phase))) {
    if (call.group == op::CommGroup::kData) bytes += program.tensors[call.data].bytes();
  }
  for (const auto& call : ops_of<op::AllToAll>(*program.tape(phase))) bytes += program.tensors[call.data].bytes();
  return bytes;
}

TEST(CommunicationTape, MessagesIn16BitsAreHalfOfAReductionAndTheirRestStays) {
  for (const bool shards : {false, true}) {
    const Phase phase = shards ? Phase::kTrainNext : Phase::kTrainLast;
    const Program plain = program_of_layout(1, shards, true);
    for (const Compression format : {Compression::kBF16, Compression::kFP16}) {
      const Program program = program_of_layout(1, shards, true, 1, 2, format);
      EXPECT_EQ(count(program, phase, "reduce_scatter"), 0U);
      EXPECT_EQ(count(program, phase, "all_to_all"), program.buckets.size());
      EXPECT_EQ(count(program, phase, "compress_gradient"), program.buckets.size());
      EXPECT_EQ(count(program, phase, "sum_messages"), program.buckets.size());
      const int64_t half = bytes_of_calls(plain, phase) / 2;
      const int64_t exponents = format == Compression::kFP16 ? half / kMessageBlock : 0;
      EXPECT_EQ(bytes_of_calls(program, phase), half + exponents);
      EXPECT_EQ(count(program, Phase::kOptimizer, "drop_residual"), 1U);
      int64_t size = 0;
      for (const Bucket& bucket : program.buckets) {
        size += bucket.size;
        EXPECT_EQ(program.tensors[bucket.residual].shape.num_elements(), bucket.size);
      }
      EXPECT_EQ(program.tensors[program.residual].shape.num_elements(), size);
      EXPECT_EQ(program.tensors[program.residual].owner, Owner::kCommunication);
    }
  }
}

TEST(CommunicationTape, WhatNobodyIsToldInMessagesHasNoRest) {
  ProgramOptions options = small_options();
  options.compression = Compression::kBF16;
  options.data_ranks = 2;
  options.sync_small_every = 5;
  const Program copied = make_llama_program(small_config(), options, PlainSizes());
  for (const Bucket& bucket : copied.buckets) EXPECT_EQ(bucket.residual.has_value(), !bucket.is_copied);
  options.has_error_feedback = false;
  const Program forgetful = make_llama_program(small_config(), options, PlainSizes());
  EXPECT_FALSE(forgetful.residual.has_value());
  EXPECT_EQ(count(forgetful, Phase::kOptimizer, "drop_residual"), 0U);
  // A tied embedding of two stages is told as it is.
  options.stages = 2;
  options.has_error_feedback = true;
  ModelConfig tied = small_config();
  tied.tie_word_embeddings = true;
  for (const Bucket& bucket : make_llama_program(tied, options, PlainSizes()).buckets) {
    EXPECT_EQ(bucket.is_compressed, bucket.name != "embedding" && !bucket.is_copied) << bucket.name;
  }
  options = small_options();
  options.compute = DType::kBF16;
  options.gradient = DType::kBF16;
  options.compression = Compression::kBF16;
  const std::string text = error_text<ConfigError>([&] { make_llama_program(small_config(), options, PlainSizes()); });
  EXPECT_NE(text.find("[distribution.compression]"), std::string::npos) << text;
}

TEST(CommunicationTape, SharedGradientsAreReducedInEveryMicroBatchAndAddedFromTheSecondOn) {
  const Program program = program_of_layout(1, true, true);
  EXPECT_EQ(program.tape(Phase::kTrainLast), nullptr);
  const size_t buckets = program.buckets.size();
  EXPECT_EQ(count(program, Phase::kTrainFirst, "reduce_scatter"), buckets);
  EXPECT_EQ(count(program, Phase::kTrainNext, "reduce_scatter"), buckets);
  EXPECT_EQ(count(program, Phase::kTrainFirst, "add"), 0U);
  EXPECT_EQ(count(program, Phase::kTrainNext, "add"), buckets);
  for (const Bucket& bucket : program.buckets) {
    EXPECT_FALSE(bucket.gradient.has_value());
    EXPECT_EQ(program.tensors[bucket.shard.gradient].shape.num_elements(), bucket.size / 2);
  }
}

/// Elements of reductions under way when so many more begin, at most.
int64_t most_under_way(const Program& program, Phase phase) {
  std::map<int, int64_t> under_way;
  int64_t most = 0;
  for (const TapeEntry& entry : program.tape(phase)->entries()) {
    if (const auto* reduce = std::get_if<op::ReduceScatter<TensorId>>(&entry.op)) {
      under_way[reduce->call] = program.tensors[reduce->data].shape.num_elements();
      int64_t elements = 0;
      for (const auto& [call, count] : under_way) elements += count;
      most = std::max(most, elements);
    } else if (const auto* wait = std::get_if<op::CommWait<TensorId>>(&entry.op)) {
      under_way.erase(wait->call);
    }
  }
  return most;
}

TEST(CommunicationTape, OfSharedGradientsALayersWorthIsUnderWayHoweverItIsCut) {
  for (const int64_t bucket_elements : {0, 1}) {
    const Program program = program_of_layout(1, true, true, 0, 2, Compression::kNone, bucket_elements);
    int64_t layer = 0;
    int64_t largest = 0;
    for (const Bucket& bucket : program.buckets) {
      layer += bucket.layer == 1 ? bucket.size : 0;
      largest = std::max(largest, bucket.size);
    }
    EXPECT_EQ(most_under_way(program, Phase::kTrainNext), std::max(layer, largest)) << bucket_elements;
  }
}

TEST(CommunicationTape, RanksOfALayoutMakeTheSameCallsInTheSameOrder) {
  for (const bool shards : {false, true}) {
    const Program first = program_of_layout(4, shards, true, 0);
    for (const int64_t rank : {1, 4, 7}) {
      const Program other = program_of_layout(4, shards, true, rank);
      EXPECT_EQ(first.memory->total_bytes(), other.memory->total_bytes());
      for (const auto& [phase, tape] : first.tapes) {
        const auto calls = [](const Tape& of, const TensorTable& tensors) {
          std::vector<std::string> all;
          for (const TapeEntry& entry : of.entries()) {
            std::visit(
                [&]<class Op>(const Op& op) {
                  if constexpr (requires { op.group; }) {
                    all.push_back(std::string(Op::kName) + std::to_string(static_cast<int>(op.group)) +
                                  tensors[op.data].shape.to_string());
                  }
                },
                entry.op);
          }
          return all;
        };
        EXPECT_EQ(calls(tape, first.tensors), calls(*other.tape(phase), other.tensors)) << tape.phase();
      }
    }
  }
}

TEST(CommunicationTape, OnlyTheLastMicroBatchReducesAndOnlyTheFirstGathers) {
  const Program once = program_of(false);
  EXPECT_EQ(count(once, Phase::kTrainFirst, "reduce_scatter"), once.buckets.size());
  EXPECT_EQ(once.tape(Phase::kTrainLast), nullptr);
  const Program program = program_of(false, true);
  EXPECT_EQ(count(program, Phase::kTrainFirst, "reduce_scatter"), 0U);
  EXPECT_EQ(count(program, Phase::kTrainNext, "reduce_scatter"), 0U);
  EXPECT_EQ(count(program, Phase::kTrainLast, "reduce_scatter"), program.buckets.size());
  EXPECT_EQ(count(program, Phase::kTrainFirst, "all_gather"), 3U);  // layers 1 and 2, head
  EXPECT_EQ(count(program, Phase::kTrainNext, "all_gather"), 0U);
  EXPECT_EQ(count(program, Phase::kTrainLast, "all_gather"), 0U);
  EXPECT_EQ(count(program, Phase::kOptimizer, "all_gather"), 3U + 1U);  // small, embedding, layer 0; the message
  EXPECT_EQ(count(program, Phase::kGather, "all_gather"), 3U);
  EXPECT_EQ(count(program, Phase::kSumState, "all_gather"), 1U);
  for (const auto& [phase, tape] : program.tapes) {
    const std::set<Phase> meeting = {Phase::kTrainFirst, Phase::kTrainLast, Phase::kOptimizer, Phase::kGather,
                                     Phase::kSumState};
    EXPECT_EQ(ops_of<op::CommWait>(tape).empty(), !meeting.contains(phase)) << tape.phase();
  }
}

TEST(CommunicationTape, WhatPackingReadsIsGatheredBesideTheUpdateAndForwardGathersNothing) {
  const Program program = program_of(true);
  EXPECT_EQ(count(program, Phase::kPack, "all_gather"), 0U);
  EXPECT_EQ(count(program, Phase::kTrainFirst, "all_gather"), 0U);
  EXPECT_EQ(count(program, Phase::kOptimizer, "all_gather"), program.buckets.size() + 1U);  // and the message
  EXPECT_EQ(count(program, Phase::kGather, "all_gather"), 0U);
}

TEST(CommunicationTape, AllRanksMakeTheSameCallsInTheSameOrder) {
  for (const bool packs : {false, true}) {
    const Program first = program_of(packs, true, 0);
    const Program second = program_of(packs, true, 1);
    for (const auto& [phase, tape] : first.tapes) {
      const auto calls = [](const Tape& of, const TensorTable& tensors) {
        std::vector<std::string> all;
        for (const TapeEntry& entry : of.entries()) {
          if (const auto* reduce = std::get_if<op::ReduceScatter<TensorId>>(&entry.op)) {
            all.push_back("reduce " + tensors[reduce->data].name + tensors[reduce->data].shape.to_string());
          } else if (const auto* gather = std::get_if<op::AllGather<TensorId>>(&entry.op)) {
            all.push_back("gather " + tensors[gather->data].name + tensors[gather->data].shape.to_string());
          }
        }
        return all;
      };
      EXPECT_EQ(calls(tape, first.tensors), calls(*second.tape(phase), second.tensors)) << tape.phase();
    }
  }
}

TEST(CommunicationTape, TheMessageGoesOutBetweenTheNormAndTheDecision) {
  const Program program = program_of(false, false, 0);
  std::vector<std::string> names;
  for (const TapeEntry& entry : program.tape(Phase::kOptimizer)->entries()) {
    const std::string name(op_name(entry.op));
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  const std::vector<std::string> expected = {"gradient_square_sum", "put_step_sums", "all_gather", "comm_wait",
                                             "take_step_sums",      "step_decision", "adamw"};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), names.begin()));
}

TEST(CommunicationTape, TheNormCountsEachElementOfThePieceOnceAndNoPadding) {
  const Program program = program_of(false, false, 0);
  int64_t counted = 0;
  for (const auto& sum : ops_of<op::GradientSquareSum>(*program.tape(Phase::kOptimizer))) {
    counted += program.tensors[sum.gradient].shape.num_elements();
  }
  int64_t owned = 0;
  for (const ParamShard& shard : program.shards) owned += shard.count;
  EXPECT_EQ(counted, owned);
}

Program program_with_copies(int64_t every, int64_t tensor_ranks = 1, bool shards = false) {
  ProgramOptions options = small_options();
  options.data_ranks = 2;
  options.tensor_ranks = tensor_ranks;
  options.accumulates = true;
  options.shards_gradients = shards;
  options.sync_small_every = every;
  ModelConfig config = small_config();
  config.has_qkv_bias = true;
  return make_llama_program(config, options, PlainSizes());
}

size_t count_calls(const Program& program, Phase phase) {
  return count(program, phase, "reduce_scatter") + count(program, phase, "all_gather");
}

TEST(CommunicationTape, CopiesOfSmallParametersTravelInTwoCallsAndInNoStep) {  // claim:L8
  const Program exact = program_with_copies(1);
  EXPECT_EQ(exact.tape(Phase::kSynchronise), nullptr);
  EXPECT_FALSE(exact.copies.has_value());
  const Program copied = program_with_copies(5);
  EXPECT_EQ(count_calls(copied, Phase::kTrainLast), count_calls(exact, Phase::kTrainLast) - 1);
  EXPECT_EQ(count_calls(copied, Phase::kOptimizer), count_calls(exact, Phase::kOptimizer) - 1);
  EXPECT_EQ(count(copied, Phase::kSynchronise, "reduce_scatter"), 1U);
  EXPECT_EQ(count(copied, Phase::kSynchronise, "all_gather"), 1U);
}

TEST(CommunicationTape, NobodyTouchesWhatASynchronisationOwns) {
  for (const int64_t tensor : {1, 2}) {
    for (const bool shards : {false, true}) {
      const Program program = program_with_copies(3, tensor, shards);
      for (const auto& [phase, tape] : program.tapes) Watcher(program).walk(tape);
    }
  }
}

TEST(CommunicationTape, TheNormCountsOwnGradientsOfCopiesByTheNumberOfRanks) {
  const Program program = program_with_copies(3);
  int64_t copied = 0;
  for (const auto& sum : ops_of<op::GradientSquareSum>(*program.tape(Phase::kOptimizer))) {
    if (sum.factor == 1) continue;
    EXPECT_EQ(sum.factor, 2);
    copied += program.tensors[sum.gradient].shape.num_elements();
  }
  int64_t small = 0;
  for (const ParamSpec& spec : program.params.params) small += spec.is_matrix() ? 0 : spec.shape.num_elements();
  EXPECT_EQ(copied, small);
}

TEST(CommunicationTape, ReplicasCompareEveryFormOfEveryWeightInOneCall) {
  for (const bool packs : {false, true}) {
    ProgramOptions options = small_options();
    options.compute = DType::kBF16;
    options.data_ranks = 2;
    EXPECT_EQ(make_llama_program(small_config(), options, PlainSizes(packs)).tape(Phase::kReplicas), nullptr);
    options.checks_replicas = true;
    const Program program = make_llama_program(small_config(), options, PlainSizes(packs));
    EXPECT_EQ(count(program, Phase::kReplicas, "all_gather"), 1U);
    EXPECT_EQ(count(program, Phase::kReplicas, "checksum"), program.replicas.tensors.size());
    EXPECT_GT(program.replicas.tensors.size(), program.params.params.size() + 2);
    options.data_ranks = 1;
    EXPECT_EQ(make_llama_program(small_config(), options, PlainSizes(packs)).tape(Phase::kReplicas), nullptr);
  }
}

TEST(CommunicationTape, OptionsThatOneRankAloneCanHaveAreRefused) {
  ProgramOptions options = small_options();
  options.data_ranks = 2;
  options.has_checksums = true;
  const std::string text = error_text<ConfigError>([&] { make_llama_program(small_config(), options, PlainSizes()); });
  EXPECT_NE(text.find("device.verify_every"), std::string::npos) << text;
  options.has_checksums = false;
  options.data_rank = 2;
  EXPECT_THROW(make_llama_program(small_config(), options, PlainSizes()), InternalError);
}

}  // namespace
}  // namespace litespark
