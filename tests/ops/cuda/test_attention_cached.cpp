// SPDX-License-Identifier: Apache-2.0
// Generation: tokens fed a few at a time against a cache give what one pass over the whole sequence gives.
#include "ops/cuda/attention_cases.h"
#include "support/tolerance.h"

namespace litespark::test {
namespace {

struct CachedCase {
  int heads, kv_heads, dim, window, batch, past, new_tokens;
  DType dtype;
  bool has_alibi = false;
};

/// Sequence b has past + b rows in its cache, as long as that leaves room.
void expect_cached_rule(const CachedCase& c) {
  const int capacity = c.past + c.batch + c.new_tokens + 3;
  const int64_t cache_columns = int64_t{2 * c.kv_heads} * c.dim;
  const int64_t query_columns = int64_t{c.heads} * c.dim;
  const int64_t columns = query_columns + cache_columns;
  OpCase<op::AttentionCached<Tensor>> test{.name = "cached",
                                           .op = {.out = shape_only(c.dtype, {c.batch * c.new_tokens, query_columns}),
                                                  .cache = shape_only(c.dtype, {c.batch, capacity, cache_columns}),
                                                  .qkv = shape_only(c.dtype, {c.batch * c.new_tokens, columns}),
                                                  .past_lengths = shape_only(DType::kI32, {c.batch}),
                                                  .batch = c.batch,
                                                  .capacity = capacity},
                                           .inputs = {}};
  Values& in = test.inputs;
  in.tensors["cache"] = random_normal(c.dtype, c.batch * capacity * cache_columns, 1);
  in.tensors["qkv"] = random_normal(c.dtype, c.batch * c.new_tokens * columns, 2);
  std::vector<double>& past = in.tensors["past_lengths"];
  std::vector<double> truth, plain;
  for (int b = 0; b < c.batch; ++b) {
    past.push_back(c.past + b);
    // The sequence as one document: old rows with keys and values of the cache, then the new rows.
    const GpuAttentionCase whole{.heads = c.heads,
                                 .kv_heads = c.kv_heads,
                                 .dim = c.dim,
                                 .window = c.window,
                                 .lengths = {c.past + b + c.new_tokens},
                                 .dtype = DType::kF32,
                                 .has_alibi = c.has_alibi};
    test.op.shape = whole.shape();
    Values sequence = whole.inputs(3);
    std::vector<double>& rows = sequence.tensors["qkv"];
    for (int row = 0; row < whole.lengths[0]; ++row) {
      const bool old = row < c.past + b;
      for (int64_t i = 0; i < columns; ++i) {
        if (old && i < query_columns) continue;
        rows[static_cast<size_t>(row * columns + i)] =
            old ? in.at("cache")[static_cast<size_t>((b * capacity + row) * cache_columns + i - query_columns)]
                : in.at("qkv")[static_cast<size_t>((b * c.new_tokens + row - c.past - b) * columns + i)];
      }
    }
    const auto append_new = [&](std::vector<double>& all, const Values& outputs) {
      const std::vector<double>& out = outputs.at("out");
      all.insert(all.end(), out.end() - c.new_tokens * query_columns, out.end());
    };
    append_new(truth, attention_truth(whole, sequence));
    append_new(plain, attention_plain(whole, sequence));
  }
  for (double& value : plain) value = round_to(c.dtype, value);
  const Execution execution = execute_twice(cuda_backend(), test);
  EXPECT_EQ(kernel_rule_violation(compare(execution.outputs.at("out"), truth), compare(plain, truth), c.dtype), "");
  for (int b = 0; b < c.batch; ++b) {
    for (int64_t i = 0; i < cache_columns; ++i) {
      ASSERT_EQ(execution.outputs.at("cache")[static_cast<size_t>((b * capacity + c.past + b) * cache_columns + i)],
                in.at("qkv")[static_cast<size_t>(b * c.new_tokens * columns + query_columns + i)])
          << "the first new row of sequence " << b << " is not in the cache";
    }
  }
}

TEST(AttentionCached, KeepsTheErrorRule) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_cached_rule({4, 2, 64, 0, 3, 0, 1, dtype});
    expect_cached_rule({6, 2, 40, 0, 2, 37, 1, dtype});
    expect_cached_rule({2, 1, 128, 10, 2, 100, 5, dtype});
    expect_cached_rule({1, 1, 256, 0, 1, 260, 3, dtype});
    expect_cached_rule({6, 2, 64, 0, 2, 300, 2, dtype, true});
  }
}

}  // namespace
}  // namespace litespark::test
