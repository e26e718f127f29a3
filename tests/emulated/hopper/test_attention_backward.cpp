// SPDX-License-Identifier: Apache-2.0
// The Hopper attention backward, whole, on the CPU: the kernels' own source over emulated hardware, held against plain
// loops in double. Finds wrong layouts, masks, phases and turns, stages handed back too early, and deadlocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "block.h"
#include "support/values.h"
#define __CUDACC__
#include "ops/cuda/device/attention_gradient_rows.cuh"
#undef __CUDACC__

namespace litespark::cuda {
namespace {

struct Case {
  int heads = 1, kv_heads = 1, dim = 64, window = 0;
  std::vector<int> lengths;
  int tail = 0;
  bool ordered = true;
  std::vector<int> off_heads = {};

  op::HeadGates gates() const {
    op::HeadGates gates;
    for (const int head : off_heads) gates.switch_off(head);
    return gates;
  }
  int tokens() const { return std::accumulate(lengths.begin(), lengths.end(), tail); }
  int columns() const { return (heads + 2 * kv_heads) * dim; }
  int out_columns() const { return heads * dim; }
  float scale() const { return static_cast<float>(1 / std::sqrt(dim)); }
  bool uniform() const {
    return tail == 0 && std::all_of(lengths.begin(), lengths.end(), [&](int length) { return length == lengths[0]; });
  }
};

std::vector<bf16> random_rows(int64_t count, uint64_t seed) {
  std::vector<bf16> result;
  for (const double value : test::random_normal(DType::kBF16, count, seed, 1)) {
    result.push_back(to_bf16(static_cast<float>(value)));
  }
  return result;
}

/// Inputs, the forward's outputs and the true gradient, by plain loops.
struct Problem {
  explicit Problem(const Case& test);

  double input(int row, int column) const { return element(qkv, row, c.columns(), column); }
  static double element(const std::vector<bf16>& matrix, int row, int columns, int column) {
    return to_float(matrix[static_cast<size_t>(row) * static_cast<size_t>(columns) + static_cast<size_t>(column)]);
  }
  void solve_query(int begin, int query, int head);

  Case c;
  std::vector<bf16> qkv, out, dout;
  std::vector<float> log_sum_exp;
  std::vector<double> gradient;
};

Problem::Problem(const Case& test)
    : c(test),
      qkv(random_rows(int64_t{c.tokens()} * c.columns(), 1)),
      out(static_cast<size_t>(c.tokens() * c.out_columns())),
      dout(random_rows(int64_t{c.tokens()} * c.out_columns(), 2)),
      log_sum_exp(static_cast<size_t>(c.heads * c.tokens())),
      gradient(qkv.size()) {
  int begin = 0;
  for (const int length : c.lengths) {
    for (int head = 0; head < c.heads; ++head) {
      if (!c.gates().is_on(head)) continue;
      for (int query = begin; query < begin + length; ++query) solve_query(begin, query, head);
    }
    begin += length;
  }
}

void Problem::solve_query(int begin, int query, int head) {
  const int group = c.heads / c.kv_heads;
  const int query_column = head * c.dim;
  const int key_column = (c.heads + head / group) * c.dim;
  const int value_column = key_column + c.kv_heads * c.dim;
  const int first = c.window > 0 ? std::max(begin, query - c.window + 1) : begin;
  std::vector<double> weights;
  double total = 0;
  for (int key = first; key <= query; ++key) {
    double score = 0;
    for (int d = 0; d < c.dim; ++d) score += input(query, query_column + d) * input(key, key_column + d);
    weights.push_back(std::exp(score * c.scale()));
    total += weights.back();
  }
  log_sum_exp[static_cast<size_t>(head * c.tokens() + query)] = static_cast<float>(std::log(total));
  double delta = 0;
  for (int d = 0; d < c.dim; ++d) {
    double sum = 0;
    for (int key = first; key <= query; ++key) {
      sum += weights[static_cast<size_t>(key - first)] / total * input(key, value_column + d);
    }
    const bf16 rounded = to_bf16(static_cast<float>(sum));
    out[static_cast<size_t>(query * c.out_columns() + head * c.dim + d)] = rounded;
    delta += to_float(rounded) * element(dout, query, c.out_columns(), head * c.dim + d);
  }
  const auto add = [&](int row, int column, double value) {
    gradient[static_cast<size_t>(row * c.columns() + column)] += value;
  };
  for (int key = first; key <= query; ++key) {
    const double weight = weights[static_cast<size_t>(key - first)] / total;
    double dweight = 0;
    for (int d = 0; d < c.dim; ++d) {
      dweight += element(dout, query, c.out_columns(), head * c.dim + d) * input(key, value_column + d);
    }
    const double dscore = weight * (dweight - delta) * c.scale();
    for (int d = 0; d < c.dim; ++d) {
      add(query, query_column + d, dscore * input(key, key_column + d));
      add(key, key_column + d, dscore * input(query, query_column + d));
      add(key, value_column + d, weight * element(dout, query, c.out_columns(), head * c.dim + d));
    }
  }
}

/// Memory as the launcher divides it, all NaN at first.
struct Scratch {
  explicit Scratch(const Case& c)
      : layout(gradient_scratch(c.tokens(), c.heads, c.dim)),
        bytes(static_cast<size_t>(layout.bytes / 16), {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) {}
  template <class T>
  T* at(int64_t offset) {
    return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(bytes.data()) + offset);
  }
  GradientBuffers buffers() {
    return {.dqueries = at<float>(layout.dqueries),
            .statistics = at<float>(layout.statistics),
            .last_query = at<int32_t>(layout.last_query),
            .first_key_tile = at<int32_t>(layout.first_key_tile),
            .turns = at<int32_t>(layout.turns),
            .ticket = at<int32_t>(layout.ticket)};
  }
  GradientScratch layout;
  std::vector<uint4> bytes;
};

/// What the launcher hands to the kernels, over memory of its own.
struct Launch {
  explicit Launch(const Problem& problem);

  std::vector<bf16> dqkv;
  std::vector<int32_t> offsets = {0};
  int32_t num_documents;
  Scratch scratch;
  std::vector<float> log_sum_exp;
  AttentionArguments arguments;
  DocumentTable table;
  GradientArguments gradient;
};

Launch::Launch(const Problem& problem)
    : dqkv(problem.qkv.size(), bf16{0xffff}),
      num_documents(static_cast<int32_t>(problem.c.lengths.size())),
      scratch(problem.c),
      log_sum_exp(problem.log_sum_exp) {
  const Case& c = problem.c;
  for (const int length : c.lengths) offsets.push_back(offsets.back() + length);
  arguments = {.qkv = problem.qkv.data(),
               .out = const_cast<bf16*>(problem.out.data()),
               .log_sum_exp = log_sum_exp.data(),
               .dout = problem.dout.data(),
               .dqkv = dqkv.data(),
               .offsets = offsets.data(),
               .num_documents = &num_documents,
               .stats = {.head_stride = c.tokens()},
               .num_tokens = c.tokens(),
               .num_heads = c.heads,
               .num_kv_heads = c.kv_heads,
               .head_dim = c.dim,
               .window = c.window,
               .scale = c.scale(),
               .max_documents = num_documents,
               .uniform_length = c.uniform() ? c.lengths[0] : 0,
               .gates = c.gates()};
  table = {.offsets = offsets.data(),
           .num_documents = &num_documents,
           .max_documents = num_documents,
           .num_tokens = c.tokens(),
           .uniform_length = arguments.uniform_length};
  gradient = {.dqkv = dqkv.data(),
              .buffers = scratch.buffers(),
              .order = gradient_order({.num_tokens = c.tokens(),
                                       .max_documents = num_documents,
                                       .uniform_length = arguments.uniform_length,
                                       .num_heads = arguments.num_on(),
                                       .num_kv_heads = arguments.num_busy_kv_heads(),
                                       .head_dim = c.dim}),
              .num_tokens = c.tokens(),
              .num_heads = c.heads,
              .num_kv_heads = c.kv_heads,
              .scale = c.scale(),
              .gates = c.gates()};
}

template <int kHeadDim, bool kOrdered>
std::vector<bf16> run_blocks(const Problem& problem) {
  const Case& c = problem.c;
  Launch launch(problem);
  constexpr int kQueries = gradient_query_tile(kHeadDim);
  const CUtensorMap keys{problem.qkv.data(), c.tokens(), c.columns(), kGradientKeyTile};
  const CUtensorMap queries{problem.qkv.data(), c.tokens(), c.columns(), kQueries};
  const CUtensorMap douts{problem.dout.data(), c.tokens(), c.out_columns(), kQueries};
  const GradientMaps maps{.keys = keys, .queries = queries, .douts = douts};
  const GradientArguments& gradient = launch.gradient;
  const auto for_each_tile = [&](const auto& body) {
    for (int tile = 0; tile < tiles_of<kQueries>(c.tokens()); ++tile) {
      for (int head = 0; head < launch.arguments.num_on(); ++head) {
        EXPECT_EQ(emulated::run_block(kGradientRowThreads, 1, [&] { body(tile, head); }), "");
      }
    }
  };
  for_each_tile([&](int tile, int head) {
    prepare_gradient_rows<kHeadDim>(launch.arguments, launch.table, gradient.buffers, tile, head, !kOrdered);
  });
  static_assert(sizeof(GradientShared<kHeadDim>) + 1024 <= emulated::kSharedBytes);
  auto& shared = *reinterpret_cast<GradientShared<kHeadDim>*>(emulated::shared_memory());
  for (int slot = 0; slot < gradient.order.slots(); ++slot) {
    EXPECT_EQ(emulated::run_block(kHopperThreads, static_cast<unsigned>(slot),
                                  [&] { attention_gradient_block<kHeadDim, kOrdered>(shared, gradient, maps); }),
              "")
        << "block " << slot;
  }
  auto& rows = *reinterpret_cast<GradientRows<kHeadDim>*>(emulated::shared_memory());
  for_each_tile([&](int tile, int head) {
    finish_gradient_rows<kHeadDim>(launch.arguments, launch.table, gradient.buffers, tile, head, rows);
  });
  return launch.dqkv;
}

std::vector<bf16> run_case(const Problem& problem) {
  if (problem.c.dim == 64) {
    return problem.c.ordered ? run_blocks<64, true>(problem) : run_blocks<64, false>(problem);
  }
  return problem.c.ordered ? run_blocks<128, true>(problem) : run_blocks<128, false>(problem);
}

/// Columns of heads that are off, which no block writes: the launcher's caller clears them.
void clear_unwritten(const Case& c, std::vector<bf16>& dqkv) {
  const auto clear = [&](int head) {
    for (int row = 0; row < c.tokens(); ++row) {
      bf16* const first = dqkv.data() + row * c.columns() + head * c.dim;
      for (int d = 0; d < c.dim; ++d) ASSERT_EQ(std::exchange(first[d], bf16{}).bits, 0xffff) << "head " << head;
    }
  };
  const int group = c.heads / c.kv_heads;
  for (int head = 0; head < c.heads; ++head) {
    if (!c.gates().is_on(head)) clear(head);
  }
  for (int kv_head = 0; kv_head < c.kv_heads; ++kv_head) {
    if (c.gates().num_on(kv_head * group, group) > 0) continue;
    clear(c.heads + kv_head);
    clear(c.heads + c.kv_heads + kv_head);
  }
}

/// bf16 weights and gradients of scores: 2^-9 a factor, against the size of what is summed.
void expect_gradient(const Case& c) {
  const Problem problem(c);
  std::vector<bf16> ours = run_case(problem);
  clear_unwritten(c, ours);
  int64_t wrong = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double expected = problem.gradient[i];
    const double actual = to_float(ours[i]);
    if (std::abs(actual - expected) <= 0.02 + 0.02 * std::abs(expected)) continue;
    const auto columns = static_cast<size_t>(c.columns());
    if (++wrong <= 4)
      ADD_FAILURE() << "row " << i / columns << ", column " << i % columns << ": " << actual << " for " << expected;
  }
  EXPECT_EQ(wrong, 0) << "of " << ours.size() << ", heads of " << c.dim;
}

TEST(EmulatedAttentionBackward, OneTile) {
  for (const int dim : {64, 128}) expect_gradient({.dim = dim, .lengths = {128}});
}

TEST(EmulatedAttentionBackward, SeveralTilesOfGroupedHeads) {
  for (const int dim : {64, 128}) expect_gradient({.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {300}});
}

TEST(EmulatedAttentionBackward, EqualDocumentsOfWholeTiles) {
  for (const int dim : {64, 128}) expect_gradient({.dim = dim, .lengths = {256, 256}});
}

TEST(EmulatedAttentionBackward, DocumentsThatShareTilesAndRowsOfNone) {
  for (const int dim : {64, 128}) expect_gradient({.dim = dim, .lengths = {1, 130, 65}, .tail = 140});
}

TEST(EmulatedAttentionBackward, AWindow) {
  for (const int dim : {64, 128}) expect_gradient({.dim = dim, .window = 70, .lengths = {330}, .tail = 2});
}

TEST(EmulatedAttentionBackward, HeadsThatAreOffGetNoBlock) {
  for (const bool ordered : {true, false}) {
    expect_gradient({.heads = 6, .kv_heads = 3, .lengths = {150}, .ordered = ordered, .off_heads = {0, 1, 5}});
  }
  expect_gradient({.heads = 3, .kv_heads = 1, .dim = 128, .lengths = {130}, .tail = 2, .off_heads = {0, 2}});
}

TEST(EmulatedAttentionBackward, FreeOrder) {
  for (const int dim : {64, 128}) expect_gradient({.dim = dim, .lengths = {200, 100}, .ordered = false});
}

}  // namespace
}  // namespace litespark::cuda
