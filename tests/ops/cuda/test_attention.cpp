// SPDX-License-Identifier: Apache-2.0
// The reference loops of the attention tests, and which implementation the backend chooses and says it chose.
#include <algorithm>

#include "ops/cuda/attention_cases.h"

namespace litespark::test {
namespace {

/// Plain loops in one precision, on one case.
template <class Real>
class PlainAttention {
 public:
  PlainAttention(const GpuAttentionCase& c, const Values& in, bool rounds)
      : c_(c), rounds_(rounds), qkv_(in.at("qkv").begin(), in.at("qkv").end()) {}

  Values forward() const {
    std::vector<double> out(static_cast<size_t>(c_.rows() * c_.out_columns()));
    std::vector<double> log_sum_exp(static_cast<size_t>(c_.rows() * c_.heads));
    for_each_query([&](int begin, int position, int head) {
      std::vector<Real> weights = scores(begin, position, head);
      const Real largest = *std::max_element(weights.begin(), weights.end());
      Real total = 0;
      for (Real& weight : weights) total += weight = std::exp(weight - largest);
      const int first = first_key(position);
      const int64_t row = begin + position;
      for (int d = 0; d < c_.dim; ++d) {
        Real sum = 0;
        for (size_t j = 0; j < weights.size(); ++j) {
          sum += rounded(weights[j]) * value(begin + first + static_cast<int>(j), head, d);
        }
        out[static_cast<size_t>(row * c_.out_columns() + head * c_.dim + d)] = static_cast<double>(sum / total);
      }
      log_sum_exp[static_cast<size_t>(head * c_.rows() + row)] = static_cast<double>(largest + std::log(total));
    });
    return {.tensors = {{"out", out}, {"log_sum_exp", log_sum_exp}}, .state = {}};
  }

  Values backward(const Values& in) const {
    std::vector<Real> dqkv(qkv_.size());
    const std::vector<double>& out = in.at("out");
    const std::vector<double>& dout = in.at("dout");
    for_each_query([&](int begin, int position, int head) {
      const int64_t row = begin + position;
      const size_t gradient = static_cast<size_t>(row * c_.out_columns() + head * c_.dim);
      Real delta = 0;
      for (size_t d = 0; d < static_cast<size_t>(c_.dim); ++d) {
        delta += static_cast<Real>(out[gradient + d]) * static_cast<Real>(dout[gradient + d]);
      }
      const auto log_sum_exp = static_cast<Real>(in.at("log_sum_exp")[static_cast<size_t>(head * c_.rows() + row)]);
      const std::vector<Real> all = scores(begin, position, head);
      for (size_t j = 0; j < all.size(); ++j) {
        const int key_row = begin + first_key(position) + static_cast<int>(j);
        const Real weight = std::exp(all[j] - log_sum_exp);
        Real dweight = 0;
        for (int d = 0; d < c_.dim; ++d) {
          dweight += static_cast<Real>(dout[gradient + static_cast<size_t>(d)]) * value(key_row, head, d);
        }
        const Real dscore = static_cast<Real>(c_.shape().scale) * rounded(weight * (dweight - delta));
        for (int d = 0; d < c_.dim; ++d) {
          dqkv[query_index(static_cast<int>(row), head, d)] += dscore * key(key_row, head, d);
          dqkv[key_index(key_row, head, d)] += dscore * qkv_[query_index(static_cast<int>(row), head, d)];
          dqkv[value_index(key_row, head, d)] +=
              rounded(weight) * static_cast<Real>(dout[gradient + static_cast<size_t>(d)]);
        }
      }
    });
    return {.tensors = {{"dqkv", {dqkv.begin(), dqkv.end()}}}, .state = {}};
  }

 private:
  template <class Body>
  void for_each_query(const Body& body) const {
    int begin = 0;
    for (const int length : c_.lengths) {
      for (int head = 0; head < c_.heads; ++head) {
        if (!c_.gates().is_on(head)) continue;
        for (int position = 0; position < length; ++position) body(begin, position, head);
      }
      begin += length;
    }
  }
  Real rounded(Real value) const {
    return rounds_ ? static_cast<Real>(round_to(c_.dtype, static_cast<double>(value))) : value;
  }
  int first_key(int position) const { return c_.window > 0 ? std::max(0, position - c_.window + 1) : 0; }
  size_t index(int row, int head, int d) const {
    return static_cast<size_t>(row * c_.qkv_columns() + head * c_.dim + d);
  }
  int kv_head(int head) const { return head / (c_.heads / c_.kv_heads); }
  size_t query_index(int row, int head, int d) const { return index(row, head, d); }
  size_t key_index(int row, int head, int d) const { return index(row, c_.heads + kv_head(head), d); }
  size_t value_index(int row, int head, int d) const { return index(row, c_.heads + c_.kv_heads + kv_head(head), d); }
  Real key(int row, int head, int d) const { return qkv_[key_index(row, head, d)]; }
  Real value(int row, int head, int d) const { return qkv_[value_index(row, head, d)]; }

  /// ALiBi's as the paper has them: 2^(-8 (h + 1) / n) for n heads, n a power of two; for others n is the power below,
  /// and the heads past it take every other slope of twice as many.
  double slope(int head) const {
    int below = 1;
    while (2 * below <= c_.heads) below *= 2;
    if (head < below) return std::pow(2.0, -8.0 * (head + 1) / below);
    return std::pow(2.0, -8.0 * (2 * (head - below) + 1) / (2 * below));
  }

  /// Scaled scores of the keys that the query sees, oldest first, the distance's bias added.
  std::vector<Real> scores(int begin, int position, int head) const {
    std::vector<Real> result;
    for (int j = first_key(position); j <= position; ++j) {
      Real sum = 0;
      for (int d = 0; d < c_.dim; ++d) sum += qkv_[query_index(begin + position, head, d)] * key(begin + j, head, d);
      const Real bias = c_.has_alibi ? -static_cast<Real>(slope(head)) * static_cast<Real>(position - j) : Real{0};
      result.push_back(static_cast<Real>(c_.shape().scale) * sum + bias);
    }
    return result;
  }

  const GpuAttentionCase& c_;
  bool rounds_;
  std::vector<Real> qkv_;
};

Tensor scratch_of(int64_t bytes) {
  return bytes > 0 ? shape_only(DType::kU8, {bytes}) : Tensor{};
}

}  // namespace

std::string GpuAttentionCase::name() const {
  std::string text = std::to_string(heads) + "/" + std::to_string(kv_heads) + " heads of " + std::to_string(dim) +
                     ", window " + std::to_string(window) + (has_alibi ? ", alibi, " : ", ") +
                     std::string(dtype_name(dtype)) + ", lengths";
  for (const int length : lengths) text += " " + std::to_string(length);
  for (const int head : off_heads) text += (head == off_heads[0] ? ", without heads " : " ") + std::to_string(head);
  return text + " + " + std::to_string(tail_rows);
}

op::AttentionShape GpuAttentionCase::shape() const {
  const int longest = lengths.empty() ? 1 : *std::max_element(lengths.begin(), lengths.end());
  const bool equal = std::all_of(lengths.begin(), lengths.end(), [&](int length) { return length == longest; });
  return {.num_heads = heads,
          .num_kv_heads = kv_heads,
          .head_dim = dim,
          .window = window,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim))),
          .max_documents = static_cast<int>(lengths.size()) + spare_documents,
          .max_length = longest,
          .uniform = equal && tail_rows == 0 && spare_documents == 0 && !lengths.empty(),
          .has_alibi = has_alibi,
          .gates = gates()};
}

op::HeadGates GpuAttentionCase::gates() const {
  op::HeadGates gates;
  for (const int head : off_heads) gates.switch_off(head);
  return gates;
}

Values GpuAttentionCase::inputs(uint64_t seed) const {
  std::vector<double> offsets = {0};
  for (const int length : lengths) offsets.push_back(offsets.back() + length);
  offsets.resize(offsets.size() + static_cast<size_t>(spare_documents), -1);
  return {.tensors = {{"qkv", random_normal(dtype, rows() * qkv_columns(), seed, magnitude)},
                      {"offsets", offsets},
                      {"num_documents", {static_cast<double>(lengths.size())}}},
          .state = {}};
}

std::vector<GpuAttentionCase> gpu_attention_cases(DType dtype) {
  std::vector<GpuAttentionCase> cases = {
      {.lengths = {1}, .tail_rows = 1},
      {.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {97}, .tail_rows = 3},
      {.heads = 6, .kv_heads = 2, .dim = 32, .lengths = {257, 1, 64}, .spare_documents = 2},
      {.heads = 2, .kv_heads = 2, .dim = 64, .lengths = {128, 128, 128}},
      {.heads = 2, .kv_heads = 1, .dim = 64, .lengths = {129, 129}},
      {.heads = 3, .kv_heads = 1, .dim = 96, .lengths = {70, 9}, .tail_rows = 130},
      {.heads = 6, .kv_heads = 2, .dim = 128, .lengths = {193}},
      {.heads = 2, .kv_heads = 1, .dim = 256, .lengths = {150}, .tail_rows = 2},
      {.heads = 2, .kv_heads = 1, .dim = 32, .window = 5, .lengths = {150, 70}},
      {.heads = 2, .kv_heads = 1, .dim = 64, .window = 64, .lengths = {200, 64, 65}, .tail_rows = 1},
      {.heads = 4, .kv_heads = 2, .dim = 128, .window = 100, .lengths = {300, 1}},
      {.heads = 4, .kv_heads = 2, .dim = 64, .lengths = {1, 63, 1, 64, 65, 1, 130}, .tail_rows = 11},
      {.heads = 1, .kv_heads = 1, .dim = 64, .lengths = std::vector<int>(70, 3), .spare_documents = 30},
      {.heads = 2, .kv_heads = 1, .dim = 64, .lengths = {130}, .tail_rows = 1, .magnitude = 8},
      {.heads = 6, .kv_heads = 2, .dim = 32, .lengths = {257, 1, 64}, .has_alibi = true},
      {.heads = 3, .kv_heads = 1, .dim = 96, .lengths = {70, 9}, .tail_rows = 130, .has_alibi = true},
      {.heads = 6, .kv_heads = 2, .dim = 128, .lengths = {193}, .has_alibi = true},
      {.heads = 2, .kv_heads = 1, .dim = 256, .lengths = {150}, .has_alibi = true},
      {.heads = 4, .kv_heads = 4, .dim = 64, .window = 64, .lengths = {200, 200}, .has_alibi = true},
      {.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {97}, .tail_rows = 3, .off_heads = {1, 3, 4, 5}},
      {.heads = 8, .kv_heads = 2, .dim = 64, .lengths = {130, 70}, .off_heads = {0, 6}},
      {.heads = 3, .kv_heads = 3, .dim = 128, .window = 70, .lengths = {150, 150}, .off_heads = {1}},
      {.heads = 6, .kv_heads = 3, .dim = 32, .lengths = {100}, .has_alibi = true, .off_heads = {2, 3, 5}},
      {.heads = 2, .kv_heads = 1, .dim = 64, .lengths = {40, 40}, .off_heads = {0, 1}}};
  for (GpuAttentionCase& c : cases) c.dtype = dtype;
  return cases;
}

Values attention_truth(const GpuAttentionCase& c, const Values& in) {
  return PlainAttention<double>(c, in, false).forward();
}
Values attention_plain(const GpuAttentionCase& c, const Values& in) {
  return PlainAttention<float>(c, in, true).forward();
}
Values attention_gradient_truth(const GpuAttentionCase& c, const Values& in) {
  return PlainAttention<double>(c, in, false).backward(in);
}
Values attention_gradient_plain(const GpuAttentionCase& c, const Values& in) {
  return PlainAttention<float>(c, in, true).backward(in);
}

OpCase<op::AttentionForward<Tensor>> attention_forward_case(Backend& backend, const GpuAttentionCase& c,
                                                            uint64_t seed) {
  const int64_t bytes = backend.sizes().attention_forward_scratch_bytes(c.shape(), c.rows(), c.dtype);
  return {.name = c.name(),
          .op = {.out = shape_only(c.dtype, {c.rows(), c.out_columns()}),
                 .log_sum_exp = shape_only(DType::kF32, {c.heads, c.rows()}),
                 .qkv = shape_only(c.dtype, {c.rows(), c.qkv_columns()}),
                 .offsets = shape_only(DType::kI32, {c.shape().max_documents + 1}),
                 .num_documents = shape_only(DType::kI32, {1}),
                 .scratch = scratch_of(bytes),
                 .abs_max = {},
                 .shape = c.shape()},
          .inputs = c.inputs(seed)};
}

OpCase<op::AttentionForward<Tensor>> rotated_on_load(OpCase<op::AttentionForward<Tensor>> test, DType dtype) {
  add_angles(test, dtype);
  test.op.rotated = test.op.qkv;
  return test;
}

Execution execute_after_rope(Backend& backend, const OpCase<op::AttentionForward<Tensor>>& test) {
  const OpCase<op::Rope<Tensor>> rope{
      .name = "rope of " + test.name, .op = op::rotation_of(test.op, test.op.qkv, false), .inputs = test.inputs};
  auto after = test;
  after.inputs.tensors["qkv"] = execute(backend, rope).outputs.at("qkv");
  after.op.table = after.op.positions = after.op.rotated = {};
  return execute(backend, after);
}

Execution execute_before_rope(Backend& backend, const OpCase<op::AttentionBackward<Tensor>>& test) {
  auto before = test;
  before.op.table = before.op.positions = before.op.abs_max = {};
  OpCase<op::Rope<Tensor>> rope{
      .name = "rope of " + test.name, .op = op::rotation_of(test.op, test.op.dqkv, true), .inputs = test.inputs};
  rope.inputs.tensors["qkv"] = execute(backend, before).outputs.at("dqkv");
  return execute(backend, rope);
}

OpCase<op::AttentionBackward<Tensor>> attention_backward_shapes(Backend& backend, const GpuAttentionCase& c,
                                                                uint64_t seed) {
  const auto before = attention_forward_case(backend, c, seed);
  const int64_t bytes = backend.sizes().attention_backward_scratch_bytes(c.shape(), c.rows(), c.dtype);
  return {.name = c.name(),
          .op = {.dqkv = shape_only(c.dtype, {c.rows(), c.qkv_columns()}),
                 .dout = shape_only(c.dtype, {c.rows(), c.out_columns()}),
                 .qkv = before.op.qkv,
                 .out = before.op.out,
                 .log_sum_exp = before.op.log_sum_exp,
                 .offsets = before.op.offsets,
                 .num_documents = before.op.num_documents,
                 .scratch = scratch_of(bytes),
                 .shape = c.shape()},
          .inputs = before.inputs};
}

OpCase<op::AttentionBackward<Tensor>> attention_backward_case(Backend& backend, const GpuAttentionCase& c,
                                                              uint64_t seed) {
  auto test = attention_backward_shapes(backend, c, seed);
  for (const auto& [key, output] : attention_truth(c, test.inputs).tensors) {
    std::vector<double>& rounded = test.inputs.tensors[key];
    for (const double value : output) rounded.push_back(round_to(key == "out" ? c.dtype : DType::kF32, value));
  }
  test.inputs.tensors["dout"] = random_normal(c.dtype, c.rows() * c.out_columns(), seed + 100);
  return test;
}

void expect_statistics(const std::string& case_name, const std::vector<double>& actual,
                       const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size()) << case_name;
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << case_name << ": statistics " << i;
  }
}

Backend& portable_backend() {
  static const std::unique_ptr<Backend> backend = make_cuda_backend({.attention = AttentionKind::kPortable});
  return *backend;
}

std::vector<double> columns_of(const std::vector<double>& matrix, int64_t columns, int64_t first, int64_t count) {
  std::vector<double> result;
  for (size_t row = 0; row < matrix.size() / static_cast<size_t>(columns); ++row) {
    const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(row) * columns + first;
    result.insert(result.end(), begin, begin + count);
  }
  return result;
}

namespace {

/// The choice that the backend names for an op of `tokens` rows.
std::string choice_of(const Backend& backend, const std::string& op, int64_t tokens) {
  for (const auto& [key, choice] : backend.tuning()) {
    if (key.starts_with(op + " n=" + std::to_string(tokens) + " ")) return choice;
  }
  return "none";
}
std::string forward_choice(const Backend& backend, int64_t tokens) {
  return choice_of(backend, "attention_forward", tokens);
}

TEST(Attention, SaysWhyThePortableKernelsRun) {
  const GpuAttentionCase equal{.dim = 64, .lengths = {20, 20}};
  execute(portable_backend(), attention_forward_case(portable_backend(), equal, 1));
  EXPECT_EQ(forward_choice(portable_backend(), 40), "portable (asked for)");
}

TEST(Attention, PackedDocumentsAndFp32AreLeftToOurOwnKernels) {
  const auto backend = make_cuda_backend({});
  const bool has_hopper = backend->name().find("sm_90") != std::string::npos;
  const GpuAttentionCase packed{.dim = 64, .lengths = {20, 10}};
  execute(*backend, attention_forward_case(*backend, packed, 1));
  EXPECT_TRUE(forward_choice(*backend, 30).starts_with(has_hopper ? "hopper (" : "portable ("))
      << forward_choice(*backend, 30);
  const GpuAttentionCase exact{.dim = 64, .lengths = {20, 20}, .dtype = DType::kF32};
  execute(*backend, attention_forward_case(*backend, exact, 1));
  EXPECT_TRUE(forward_choice(*backend, 40).starts_with("portable (")) << forward_choice(*backend, 40);
}

TEST(Attention, OnHopperHeadsOf256HaveAForwardAloneAndOthersBoth) {
  for (const int dim : {64, 96, 128, 256}) {
    const auto backend = make_cuda_backend({});
    if (backend->name().find("sm_90") == std::string::npos) GTEST_SKIP() << "no Hopper part here";
    const GpuAttentionCase packed{.dim = dim, .lengths = {20, 10}};
    execute(*backend, attention_forward_case(*backend, packed, 1));
    execute(*backend, attention_backward_case(*backend, packed, 1));
    EXPECT_TRUE(forward_choice(*backend, 30).starts_with("hopper (")) << dim;
    const std::string backward = choice_of(*backend, "attention_backward", 30);
    EXPECT_TRUE(backward.starts_with(dim == 256 ? "portable (" : "hopper (")) << dim << ": " << backward;
  }
}

TEST(Attention, AlibiIsLeftToThePortableKernelsWhateverIsAskedFor) {
  for (const AttentionKind kind : {AttentionKind::kAuto, AttentionKind::kHopper}) {
    const auto backend = make_cuda_backend({.attention = kind});
    const GpuAttentionCase c{.dim = 64, .lengths = {20, 20}, .has_alibi = true};
    execute(*backend, attention_forward_case(*backend, c, 1));
    EXPECT_EQ(forward_choice(*backend, 40), "portable (ALiBi)");
  }
}

TEST(Attention, HeadsThatAreOffAreLeftToOurOwnKernels) {
  const auto backend = make_cuda_backend({});
  const bool has_hopper = backend->name().find("sm_90") != std::string::npos;
  const GpuAttentionCase c{.heads = 2, .kv_heads = 2, .dim = 64, .lengths = {20, 20}, .off_heads = {1}};
  execute(*backend, attention_forward_case(*backend, c, 1));
  EXPECT_TRUE(forward_choice(*backend, 40).starts_with(has_hopper ? "hopper" : "portable"))
      << forward_choice(*backend, 40);
}

TEST(Attention, AnEarlierPortableChoiceIsKeptTo) {
  const GpuAttentionCase c{.dim = 64, .lengths = {20, 20}};
  const auto first = make_cuda_backend({.attention = AttentionKind::kPortable});
  execute(*first, attention_forward_case(*first, c, 1));
  const auto second = make_cuda_backend({});
  second->set_tuning(first->tuning());
  execute(*second, attention_forward_case(*second, c, 1));
  EXPECT_TRUE(forward_choice(*second, 40).starts_with("portable (")) << forward_choice(*second, 40);
}

TEST(Attention, AnEarlierChoiceOfTheHopperForwardIsKeptTo) {
  const GpuAttentionCase c{.dim = 64, .lengths = {20, 20}};
  const auto first = make_cuda_backend({.attention = AttentionKind::kHopper});
  if (first->name().find("sm_90") == std::string::npos) GTEST_SKIP() << "no Hopper part here";
  execute(*first, attention_forward_case(*first, c, 1));
  EXPECT_EQ(forward_choice(*first, 40), "hopper");
  const auto second = make_cuda_backend({});
  second->set_tuning(first->tuning());
  execute(*second, attention_forward_case(*second, c, 1));
  EXPECT_EQ(forward_choice(*second, 40), "hopper (as before)");
}

}  // namespace
}  // namespace litespark::test
