// SPDX-License-Identifier: Apache-2.0
// Attention against a cache: equal to the reference, equal to forward attention over the whole sequence.
#include "ops/attention_cases.h"
#include "ops/cpu_conformance.h"
#include "support/tolerance.h"

namespace litespark::test {
namespace {

struct CachedCase {
  AttentionCase heads;  ///< lengths unused
  int batch = 1, new_tokens = 1, capacity = 1;
  std::vector<double> past = {0};

  OpCase<op::AttentionCached<Tensor>> make(uint64_t seed) const {
    const DType dtype = heads.dtype;
    const int64_t tokens = int64_t{batch} * new_tokens;
    const int64_t cache_columns = 2 * int64_t{heads.kv_heads} * heads.dim;
    OpCase<op::AttentionCached<Tensor>> test{.name = heads.name() + ", new " + std::to_string(new_tokens),
                                             .op = {.out = shape_only(dtype, {tokens, heads.out_columns()}),
                                                    .cache = shape_only(dtype, {batch, capacity, cache_columns}),
                                                    .qkv = shape_only(dtype, {tokens, heads.qkv_columns()}),
                                                    .past_lengths = shape_only(DType::kI32, {batch}),
                                                    .shape = heads.shape(),
                                                    .batch = batch,
                                                    .capacity = capacity},
                                             .inputs = {.tensors = {{"past_lengths", past}}, .state = {}}};
    fill_at_random(test, seed);
    return test;
  }
};

std::vector<CachedCase> cached_cases() {
  std::vector<CachedCase> cases;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const AttentionCase gqa{.heads = 6, .kv_heads = 2, .dim = 20, .dtype = dtype};
    const AttentionCase windowed{.heads = 2, .kv_heads = 1, .dim = 32, .window = 9, .dtype = dtype};
    cases.push_back({.heads = gqa, .batch = 3, .new_tokens = 1, .capacity = 100, .past = {0, 99, 33}});
    cases.push_back({.heads = gqa, .batch = 2, .new_tokens = 5, .capacity = 70, .past = {65, 7}});
    cases.push_back({.heads = gqa, .batch = 2, .new_tokens = 90, .capacity = 170, .past = {0, 77}});
    cases.push_back({.heads = windowed, .batch = 2, .new_tokens = 1, .capacity = 70, .past = {3, 64}});
    AttentionCase distant = gqa;
    distant.has_alibi = true;
    cases.push_back({.heads = distant, .batch = 2, .new_tokens = 3, .capacity = 100, .past = {90, 5}});
    cases.push_back({.heads = distant, .batch = 1, .new_tokens = 80, .capacity = 101, .past = {21}});
    cases.push_back({.heads = windowed, .batch = 1, .new_tokens = 80, .capacity = 101, .past = {21}});
    AttentionCase gated = gqa;
    gated.off_heads = {0, 2, 4};
    cases.push_back({.heads = gated, .batch = 2, .new_tokens = 2, .capacity = 70, .past = {30, 5}});
    cases.push_back({.heads = gated, .batch = 1, .new_tokens = 80, .capacity = 101, .past = {21}});
  }
  return cases;
}

TEST(AttentionCached, KeepsTheErrorRule) {
  for (const CachedCase& c : cached_cases()) {
    const auto test = c.make(1);
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    const Values plain = reference::evaluate<float>(test.op, test.inputs);
    for (const CpuIsa isa : usable_isas()) expect_kernel_rule(test.name, execute_with_threads(isa, test), truth, plain);
  }
}

TEST(AttentionCached, AppendsTheNewKeysAndValuesAndNothingElse) {
  const auto test = cached_cases()[1].make(2);
  const Values truth = reference::evaluate<double>(test.op, test.inputs);
  for (const CpuIsa isa : usable_isas()) {
    EXPECT_EQ(execute_with_threads(isa, test).outputs.at("cache"), truth.at("cache"));
  }
}

TEST(AttentionCached, TokenByTokenEqualsForwardOverTheWholeSequence) {
  const AttentionCase c{.heads = 4, .kv_heads = 2, .dim = 32, .lengths = {70}};
  const auto whole = c.forward(3);
  for (const CpuIsa isa : usable_isas()) {
    const std::vector<double> expected = execute_with_threads(isa, whole).outputs.at("out");
    CachedCase step{.heads = c, .batch = 1, .new_tokens = 1, .capacity = 70, .past = {0}};
    std::vector<double> cache(static_cast<size_t>(70 * 2 * 2 * 32), 0.0);
    std::vector<double> actual;
    for (int64_t position = 0; position < 70; ++position) {
      step.past = {static_cast<double>(position)};
      auto test = step.make(4);
      const auto first = whole.inputs.at("qkv").begin() + position * c.qkv_columns();
      test.inputs.tensors["qkv"].assign(first, first + c.qkv_columns());
      test.inputs.tensors["cache"] = cache;
      const Execution execution = execute(cpu_backend(isa, 2), test);
      cache = execution.outputs.at("cache");
      actual.insert(actual.end(), execution.outputs.at("out").begin(), execution.outputs.at("out").end());
    }
    EXPECT_LT(compare(actual, expected).max_abs, 1e-6);
  }
}

TEST(AttentionCached, RefusesToWritePastTheCache) {
  CachedCase c = cached_cases()[0];
  c.past = {0, 100, 33};
  EXPECT_THROW(execute(cpu_backend(CpuIsa::kGeneric, 1), c.make(5)), InternalError);
  c.past = {0, -1, 33};
  EXPECT_THROW(execute(cpu_backend(CpuIsa::kGeneric, 1), c.make(5)), InternalError);
}

}  // namespace
}  // namespace litespark::test
