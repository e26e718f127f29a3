// SPDX-License-Identifier: Apache-2.0
#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <type_traits>

#include "reference/real.h"
#include "reference/rope.h"

namespace litespark::reference {
namespace {

/// What stands between attention and the rotation before or behind it: the plain way are two ops, which store.
template <class Real>
std::vector<double> stored(DType dtype, std::vector<double> values) {
  if (std::is_same_v<Real, double>) return values;
  for (double& value : values) value = test::round_to(dtype, value);
  return values;
}

/// Element d of head h in row n of a matrix with `heads` heads of `dim`.
struct HeadIndex {
  size_t heads, dim;
  size_t operator()(size_t n, size_t h, size_t d) const { return (n * heads + h) * dim + d; }
};

struct Heads {
  explicit Heads(const op::AttentionShape& shape)
      : query(static_cast<size_t>(shape.num_heads)),
        kv(static_cast<size_t>(shape.num_kv_heads)),
        dim(static_cast<size_t>(shape.head_dim)),
        qkv{query + 2 * kv, dim},
        out{query, dim} {}
  size_t kv_head(size_t head) const { return head / (query / kv); }
  size_t key(size_t head) const { return query + kv_head(head); }
  size_t value(size_t head) const { return query + kv + kv_head(head); }

  size_t query, kv, dim;
  HeadIndex qkv, out;
};

size_t first_visible(size_t query, int window) {
  const size_t span = static_cast<size_t>(window);
  return window > 0 && query + 1 > span ? query + 1 - span : 0;
}

/// Slopes as the paper's program lists them: those of a power of two are a geometric sequence whose first member is its
/// ratio; other numbers of heads take the list of the power below, and what is missing from every second of the one
/// above.
std::vector<double> alibi_slopes(size_t heads) {
  size_t below = 1;
  while (below * 2 <= heads) below *= 2;
  const auto sequence = [](size_t n) {
    std::vector<double> slopes;
    for (size_t i = 1; i <= n; ++i) slopes.push_back(std::pow(std::pow(2.0, -8.0 / static_cast<double>(n)), i));
    return slopes;
  };
  std::vector<double> slopes = sequence(below);
  const std::vector<double> above = sequence(2 * below);
  for (size_t i = 0; slopes.size() < heads; i += 2) slopes.push_back(above[i]);
  return slopes;
}

/// Kept from one score to the next, which would otherwise cost two powers a head.
double kept_alibi_slope(size_t heads, size_t head) {
  thread_local std::map<size_t, std::vector<double>> kept;
  std::vector<double>& slopes = kept[heads];
  if (slopes.empty()) slopes = alibi_slopes(heads);
  return slopes[head];
}

/// Added to the scaled score of every key, by its distance from the query.
template <class Real>
Real distance_bias(const op::AttentionShape& shape, size_t head, size_t query, size_t key) {
  if (!shape.has_alibi) return 0;
  return -static_cast<Real>(kept_alibi_slope(static_cast<size_t>(shape.num_heads), head)) *
         static_cast<Real>(query - key);
}

template <class Real>
Real dot(const Real* a, const Real* b, size_t count) {
  Real sum = 0;
  for (size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// Calls body(first row, length) for each document.
template <class Body>
void for_each_document(const test::Values& in, const Body& body) {
  const std::vector<double>& offsets = in.at("offsets");
  const size_t count = static_cast<size_t>(in.at("num_documents")[0]);
  for (size_t document = 0; document < count; ++document) {
    const size_t first = static_cast<size_t>(offsets[document]);
    body(first, static_cast<size_t>(offsets[document + 1]) - first);
  }
}

/// Where queries and keys of a part stand in the whole micro-batch, and which see which.
struct PartRows {
  PartRows(const op::ContextPart& part, size_t rows, const test::Values& in, int visible)
      : queries(context_rows(part.ranks, part.query_rank, rows * static_cast<size_t>(part.ranks))),
        keys(context_rows(part.ranks, part.key_rank, rows * static_cast<size_t>(part.ranks))),
        documents(rows * static_cast<size_t>(part.ranks), -1),
        window(static_cast<size_t>(visible)) {
    int document = 0;
    for_each_document(in, [&](size_t first, size_t length) {
      for (size_t i = 0; i < length; ++i) documents[first + i] = document;
      ++document;
    });
  }
  bool sees(size_t query, size_t key) const {
    const size_t q = queries[query];
    const size_t k = keys[key];
    return documents[q] >= 0 && documents[q] == documents[k] && k <= q && (window == 0 || q - k < window);
  }

  std::vector<size_t> queries, keys;
  std::vector<int> documents;
  size_t window;
};

template <class Real>
Real part_score(const op::AttentionShape& shape, const Heads& heads, const PartRows& rows, const std::vector<Real>& qkv,
                const std::vector<Real>& keys_values, size_t h, size_t i, size_t j) {
  const HeadIndex kv{2 * heads.kv, heads.dim};
  return static_cast<Real>(shape.scale) *
             dot(&qkv[heads.qkv(i, h, 0)], &keys_values[kv(j, heads.kv_head(h), 0)], heads.dim) +
         distance_bias<Real>(shape, h, rows.queries[i], rows.keys[j]);
}

}  // namespace

std::vector<size_t> context_rows(int ranks, int rank, size_t num_tokens) {
  const size_t chunks = 2 * static_cast<size_t>(ranks);
  const size_t length = num_tokens / chunks;
  std::vector<size_t> rows;
  for (const size_t chunk : {static_cast<size_t>(rank), chunks - 1 - static_cast<size_t>(rank)}) {
    for (size_t i = 0; i < length; ++i) rows.push_back(chunk * length + i);
  }
  return rows;
}

template <class Real>
test::Values evaluate(const op::AttentionForward<Tensor>& op, const test::Values& in) {
  if (op.table.has_value()) {
    test::Values rotated = in;
    rotated.tensors["qkv"] =
        stored<Real>(op.qkv.dtype, evaluate<Real>(op::rotation_of(op, op.qkv, false), in).at("qkv"));
    op::AttentionForward<Tensor> without = op;
    without.table = {};
    return evaluate<Real>(without, rotated);
  }
  const Heads heads(op.shape);
  const std::vector<Real> qkv = as_real<Real>(in.at("qkv"));
  const size_t tokens = qkv.size() / (heads.qkv.heads * heads.dim);
  std::vector<Real> out(tokens * heads.query * heads.dim);
  std::vector<Real> log_sum_exp(heads.query * tokens);
  for_each_document(in, [&](size_t first, size_t length) {
    for (size_t h = 0; h < heads.query; ++h) {
      if (!op.shape.gates.is_on(static_cast<int>(h))) continue;
      for (size_t i = 0; i < length; ++i) {
        std::vector<Real> scores;
        for (size_t j = first_visible(i, op.shape.window); j <= i; ++j) {
          scores.push_back(static_cast<Real>(op.shape.scale) * dot(&qkv[heads.qkv(first + i, h, 0)],
                                                                   &qkv[heads.qkv(first + j, heads.key(h), 0)],
                                                                   heads.dim) +
                           distance_bias<Real>(op.shape, h, i, j));
        }
        const Real largest = *std::max_element(scores.begin(), scores.end());
        Real total = 0;
        for (Real& score : scores) total += score = std::exp(score - largest);
        log_sum_exp[h * tokens + first + i] = largest + std::log(total);
        size_t j = first_visible(i, op.shape.window);
        for (const Real weight : scores) {
          for (size_t d = 0; d < heads.dim; ++d) {
            out[heads.out(first + i, h, d)] += weight / total * qkv[heads.qkv(first + j, heads.value(h), d)];
          }
          ++j;
        }
      }
    }
  });
  return {.tensors = {{"out", as_double(out)}, {"log_sum_exp", as_double(log_sum_exp)}}, .state = in.state};
}

template <class Real>
test::Values evaluate(const op::AttentionBackward<Tensor>& op, const test::Values& in) {
  const Heads heads(op.shape);
  const std::vector<Real> qkv = as_real<Real>(in.at("qkv"));
  const std::vector<Real> out = as_real<Real>(in.at("out"));
  const std::vector<Real> dout = as_real<Real>(in.at("dout"));
  const std::vector<Real> log_sum_exp = as_real<Real>(in.at("log_sum_exp"));
  const size_t tokens = qkv.size() / (heads.qkv.heads * heads.dim);
  const Real scale = static_cast<Real>(op.shape.scale);
  std::vector<Real> dqkv(qkv.size());
  for_each_document(in, [&](size_t first, size_t length) {
    for (size_t h = 0; h < heads.query; ++h) {
      if (!op.shape.gates.is_on(static_cast<int>(h))) continue;
      for (size_t i = 0; i < length; ++i) {
        const size_t query = heads.qkv(first + i, h, 0);
        const Real* gradient = &dout[heads.out(first + i, h, 0)];
        const Real delta = dot(gradient, &out[heads.out(first + i, h, 0)], heads.dim);
        for (size_t j = first_visible(i, op.shape.window); j <= i; ++j) {
          const size_t key = heads.qkv(first + j, heads.key(h), 0);
          const size_t value = heads.qkv(first + j, heads.value(h), 0);
          const Real weight = std::exp(scale * dot(&qkv[query], &qkv[key], heads.dim) +
                                       distance_bias<Real>(op.shape, h, i, j) - log_sum_exp[h * tokens + first + i]);
          const Real dscore = scale * weight * (dot(gradient, &qkv[value], heads.dim) - delta);
          for (size_t d = 0; d < heads.dim; ++d) {
            dqkv[query + d] += dscore * qkv[key + d];
            dqkv[key + d] += dscore * qkv[query + d];
            dqkv[value + d] += weight * gradient[d];
          }
        }
      }
    }
  });
  test::Values result = {.tensors = {{"dqkv", as_double(dqkv)}}, .state = in.state};
  if (op.table.has_value()) {
    test::Values rotated = in;
    rotated.tensors["qkv"] = stored<Real>(op.dqkv.dtype, result.at("dqkv"));
    result.tensors["dqkv"] = evaluate<Real>(op::rotation_of(op, op.dqkv, true), rotated).at("qkv");
  }
  return result;
}

// All keys at once: those of this part, and what was seen before as one more of that weight and value.
template <class Real>
test::Values evaluate(const op::AttentionPartForward<Tensor>& op, const test::Values& in) {
  const Heads heads(op.shape);
  const HeadIndex kv{2 * heads.kv, heads.dim};
  const std::vector<Real> qkv = as_real<Real>(in.at("qkv"));
  const std::vector<Real> keys_values = as_real<Real>(in.at("keys_values"));
  const size_t rows = qkv.size() / (heads.qkv.heads * heads.dim);
  const PartRows places(op.part, rows, in, op.shape.window);
  const Real nothing = -std::numeric_limits<Real>::infinity();
  std::vector<Real> out(rows * heads.query * heads.dim);
  std::vector<Real> log_sum_exp(heads.query * rows, nothing);
  if (!op.first) {
    out = as_real<Real>(in.at("out"));
    log_sum_exp = as_real<Real>(in.at("log_sum_exp"));
  }
  for (size_t h = 0; h < heads.query; ++h) {
    for (size_t i = 0; i < rows; ++i) {
      Real& known = log_sum_exp[h * rows + i];
      std::vector<Real> scores(rows, nothing);
      Real largest = known;
      for (size_t j = 0; j < rows; ++j) {
        if (places.sees(i, j)) scores[j] = part_score(op.shape, heads, places, qkv, keys_values, h, i, j);
        largest = std::max(largest, scores[j]);
      }
      if (largest == nothing) continue;
      Real total = std::exp(known - largest);
      std::vector<Real> sum(heads.dim);
      for (size_t d = 0; d < heads.dim; ++d) sum[d] = total * out[heads.out(i, h, d)];
      for (size_t j = 0; j < rows; ++j) {
        const Real weight = std::exp(scores[j] - largest);
        total += weight;
        for (size_t d = 0; d < heads.dim; ++d) sum[d] += weight * keys_values[kv(j, heads.kv + heads.kv_head(h), d)];
      }
      for (size_t d = 0; d < heads.dim; ++d) out[heads.out(i, h, d)] = sum[d] / total;
      known = largest + std::log(total);
    }
  }
  return {.tensors = {{"out", as_double(out)}, {"log_sum_exp", as_double(log_sum_exp)}}, .state = in.state};
}

template <class Real>
test::Values evaluate(const op::AttentionPartBackward<Tensor>& op, const test::Values& in) {
  const Heads heads(op.shape);
  const HeadIndex kv{2 * heads.kv, heads.dim};
  const std::vector<Real> qkv = as_real<Real>(in.at("qkv"));
  const std::vector<Real> keys_values = as_real<Real>(in.at("keys_values"));
  const std::vector<Real> out = as_real<Real>(in.at("out"));
  const std::vector<Real> dout = as_real<Real>(in.at("dout"));
  const std::vector<Real> log_sum_exp = as_real<Real>(in.at("log_sum_exp"));
  const size_t rows = qkv.size() / (heads.qkv.heads * heads.dim);
  const PartRows places(op.part, rows, in, op.shape.window);
  const Real scale = static_cast<Real>(op.shape.scale);
  std::vector<Real> dqueries(out.size());
  std::vector<Real> dkeys_values(keys_values.size());
  if (!op.first) dqueries = as_real<Real>(in.at("dqueries"));
  for (size_t h = 0; h < heads.query; ++h) {
    for (size_t i = 0; i < rows; ++i) {
      const size_t query = heads.out(i, h, 0);
      const Real delta = dot(&dout[query], &out[query], heads.dim);
      for (size_t j = 0; j < rows; ++j) {
        if (!places.sees(i, j)) continue;
        const size_t key = kv(j, heads.kv_head(h), 0);
        const size_t value = kv(j, heads.kv + heads.kv_head(h), 0);
        const Real weight =
            std::exp(part_score(op.shape, heads, places, qkv, keys_values, h, i, j) - log_sum_exp[h * rows + i]);
        const Real dscore = scale * weight * (dot(&dout[query], &keys_values[value], heads.dim) - delta);
        for (size_t d = 0; d < heads.dim; ++d) {
          dqueries[query + d] += dscore * keys_values[key + d];
          dkeys_values[key + d] += dscore * qkv[heads.qkv(i, h, d)];
          dkeys_values[value + d] += weight * dout[query + d];
        }
      }
    }
  }
  return {.tensors = {{"dqueries", as_double(dqueries)}, {"dkeys_values", as_double(dkeys_values)}}, .state = in.state};
}

template <class Real>
test::Values evaluate(const op::AttentionCached<Tensor>& op, const test::Values& in) {
  const Heads heads(op.shape);
  const std::vector<double>& qkv = in.at("qkv");
  std::vector<double> cache = in.at("cache");
  const size_t row = 2 * heads.kv * heads.dim;
  const size_t batch = static_cast<size_t>(op.batch);
  const size_t capacity = static_cast<size_t>(op.capacity);
  const size_t new_tokens = qkv.size() / (heads.qkv.heads * heads.dim) / batch;
  std::vector<double> out;
  for (size_t b = 0; b < batch; ++b) {
    const size_t past = static_cast<size_t>(in.at("past_lengths")[b]);
    for (size_t t = 0; t < new_tokens; ++t) {
      const size_t from = heads.qkv(b * new_tokens + t, heads.query, 0);
      for (size_t i = 0; i < row; ++i) cache[(b * capacity + past + t) * row + i] = qkv[from + i];
    }
    // The whole sequence as one document, whose earlier queries do not matter.
    const size_t length = past + new_tokens;
    std::vector<double> sequence(length * heads.qkv.heads * heads.dim);
    for (size_t i = 0; i < length; ++i) {
      for (size_t c = 0; c < row; ++c) {
        sequence[heads.qkv(i, heads.query, 0) + c] = cache[(b * capacity + i) * row + c];
      }
      for (size_t c = 0; i >= past && c < heads.query * heads.dim; ++c) {
        sequence[heads.qkv(i, 0, 0) + c] = qkv[heads.qkv(b * new_tokens + i - past, 0, 0) + c];
      }
    }
    op::AttentionForward<Tensor> forward;
    forward.shape = op.shape;
    const test::Values whole{
        .tensors = {{"qkv", sequence}, {"offsets", {0, static_cast<double>(length)}}, {"num_documents", {1}}},
        .state = in.state};
    const std::vector<double> all = evaluate<Real>(forward, whole).at("out");
    out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(heads.out(past, 0, 0)), all.end());
  }
  return {.tensors = {{"out", out}, {"cache", cache}}, .state = in.state};
}

template test::Values evaluate<double>(const op::AttentionForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::AttentionForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::AttentionBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::AttentionBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::AttentionPartForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::AttentionPartForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::AttentionPartBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::AttentionPartBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::AttentionCached<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::AttentionCached<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
