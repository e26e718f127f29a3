// SPDX-License-Identifier: Apache-2.0
// Communication runs beside computation: each bucket is reduced right behind the last op that writes it, while backward
// goes on, and each block waits for its own weights only.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::small_config;
using test::small_options;

std::vector<std::string> events(bool is_tied, int64_t bucket_elements = 0) {
  ModelConfig config = small_config();
  config.tie_word_embeddings = is_tied;
  ProgramOptions options = small_options();
  options.compute = DType::kBF16;
  options.data_ranks = 2;
  options.bucket_elements = bucket_elements;
  const Program program = make_llama_program(config, options, PlainSizes());
  std::vector<std::string> all;
  const auto bucket_of = [&](TensorId id) {
    const std::string& name = program.tensors[id].name;
    return name.substr(0, name.rfind('.', name.find(".piece") == std::string::npos ? name.size() : name.size() - 7));
  };
  for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
    const std::string name(op_name(entry.op));
    if (const auto* gather = std::get_if<op::AllGather<TensorId>>(&entry.op)) {
      all.push_back("gather " + bucket_of(gather->data));
    } else if (const auto* reduce = std::get_if<op::ReduceScatter<TensorId>>(&entry.op)) {
      all.push_back("reduce " + bucket_of(reduce->data));
    } else if (const auto* wait = std::get_if<op::CommWait<TensorId>>(&entry.op)) {
      all.push_back("wait " + bucket_of(wait->tensor));
    } else if (name == "attention_forward" || name == "attention_backward" || name == "loss_reduce" ||
               name == "embedding_backward" || (bucket_elements > 0 && name == "swiglu_backward")) {
      all.push_back(name + (entry.layer < 0 ? "" : " " + std::to_string(entry.layer)));
    }
  }
  return all;
}

TEST(LlamaRanks, EachBlockWaitsForItsOwnWeightsAndGivesItsGradientsAwayAtOnce) {
  const std::vector<std::string> expected = {"gather layers.1",    "gather layers.2",
                                             "gather head",        "attention_forward 0",
                                             "wait layers.1",      "attention_forward 1",
                                             "wait layers.2",      "attention_forward 2",
                                             "wait head",          "loss_reduce",
                                             "reduce head",        "attention_backward 2",
                                             "reduce layers.2",    "attention_backward 1",
                                             "reduce layers.1",    "attention_backward 0",
                                             "reduce layers.0",    "reduce small",
                                             "embedding_backward", "reduce embedding",
                                             "wait head",          "wait layers.2",
                                             "wait layers.1",      "wait layers.0",
                                             "wait embedding",     "wait small"};
  EXPECT_EQ(events(false), expected);
}

TEST(LlamaRanks, EachMatrixThatIsABucketIsReducedAsSoonAsItsGradientIsKnown) {
  const std::vector<std::string> all = events(false, 1);
  const auto begin = std::find(all.begin(), all.end(), "reduce head");
  ASSERT_NE(begin, all.end());
  const auto end = std::find(begin, all.end(), "wait head");
  std::vector<std::string> expected = {"reduce head"};
  for (const std::string layer : {"2", "1", "0"}) {
    const std::string reduce = "reduce layers." + layer;
    const std::vector<std::string> block = {reduce + ".0", "swiglu_backward " + layer,    reduce + ".1",
                                            reduce + ".2", "attention_backward " + layer, reduce + ".3"};
    expected.insert(expected.end(), block.begin(), block.end());
  }
  expected.insert(expected.end(), {"reduce small", "embedding_backward", "reduce embedding"});
  EXPECT_EQ(std::vector<std::string>(begin, end), expected);
  const auto gathered = [&](const std::string& event) { return std::count(all.begin(), all.end(), event); };
  for (const std::string part : {"0", "1", "2", "3"}) {
    EXPECT_EQ(gathered("gather layers.1." + part), 1) << part;
    // Once in front of the block, once behind its reduction.
    EXPECT_EQ(gathered("wait layers.1." + part), 2) << part;
    EXPECT_LT(std::find(all.begin(), all.end(), "wait layers.1." + part),
              std::find(all.begin(), all.end(), "attention_forward 1"));
  }
}

TEST(LlamaRanks, ATiedHeadIsReducedWithTheEmbedding) {
  const std::vector<std::string> all = events(true);
  EXPECT_EQ(std::count(all.begin(), all.end(), "reduce embedding"), 1);
  for (const std::string& event : all) EXPECT_EQ(event.find("head"), std::string::npos) << event;
  EXPECT_EQ(all.at(all.size() - 6), "reduce embedding");
}

}  // namespace
}  // namespace litespark
