// SPDX-License-Identifier: Apache-2.0
#include "anatomy/embedding.h"

#include <algorithm>
#include <set>

#include "anatomy/workspace.h"
#include "core/rng.h"

namespace litespark::anatomy {
namespace {

constexpr uint64_t kTokensStream = 0x746f6b656e73;

/// Bytes a second of the three passes, for one kind of tokens.
struct Rates {
  int64_t num_rows = 0;  ///< of the table that some token names
  double forward = 0;
  double backward_first = 0;  ///< all other rows become 0
  double backward_next = 0;   ///< adds to what is there
  bool repeats_its_bits = false;
};

int64_t checksum_of(Backend& backend, Workspace& workspace, const Tensor& x) {
  const Tensor sum = workspace.zeros(DType::kI64, {1});
  backend.run(op::Checksum<Tensor>{.out = sum, .x = x});
  int64_t value = 0;
  backend.copy_to_host(&value, sum.data, sizeof(value));
  return value;
}

Rates measure(Backend& backend, const MeasureOptions& options, const EmbeddingSizes& sizes, bool by_frequency) {
  Workspace workspace(backend);
  const std::vector<int32_t> drawn = drawn_tokens(sizes.vocab, sizes.tokens, by_frequency);
  const Tensor ids = workspace.integers(drawn);
  const Tensor table = workspace.numbers(DType::kF32, {sizes.vocab, sizes.hidden});
  const Tensor gradient = workspace.zeros(DType::kF32, {sizes.vocab, sizes.hidden});
  const Tensor rows = workspace.numbers(DType::kF32, {sizes.tokens, sizes.hidden});
  const Tensor out = workspace.zeros(DType::kF32, {sizes.tokens, sizes.hidden});
  const op::EmbeddingForward<Tensor> forward{.out = out, .table = table, .ids = ids, .state = workspace.step_state()};
  op::EmbeddingBackward<Tensor> backward{.dtable = gradient,
                                         .dout = rows,
                                         .ids = ids,
                                         .scratch = workspace.zeros(DType::kI32, {2 * sizes.tokens + sizes.vocab + 1})};
  const double row_bytes = 4.0 * static_cast<double>(sizes.hidden);
  const auto token_rows = static_cast<double>(sizes.tokens);
  Rates rates{.num_rows = std::ssize(std::set<int32_t>(drawn.begin(), drawn.end()))};
  const auto rate = [&](double moved_rows, const auto& op) {
    return moved_rows * row_bytes / time_runs(backend, options.seconds, [&] { backend.run(op); }).median_seconds;
  };
  rates.forward = rate(2 * token_rows, forward);
  rates.backward_first = rate(token_rows + static_cast<double>(sizes.vocab), backward);
  backend.run(backward);
  const int64_t first = checksum_of(backend, workspace, gradient);
  backend.run(backward);
  rates.repeats_its_bits = checksum_of(backend, workspace, gradient) == first;
  backward.accumulate = true;
  rates.backward_next = rate(token_rows + 2 * static_cast<double>(rates.num_rows), backward);
  return rates;
}

Value rate_value(double bytes_per_second, double copy_rate) {
  Value value = quantity(bytes_per_second / 1e9, "GB/s", 2);
  value.text += ", " + percent(bytes_per_second / copy_rate).text + " of a copy";
  return value;
}

}  // namespace

std::vector<int32_t> drawn_tokens(int64_t vocab, int64_t tokens, bool by_frequency) {
  const RandomStream random(1, kTokensStream);
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  if (!by_frequency) {
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int32_t>(random.below(i, static_cast<uint64_t>(vocab)));
    }
    return ids;
  }
  std::vector<double> reached(static_cast<size_t>(vocab));
  double sum = 0;
  for (size_t rank = 0; rank < reached.size(); ++rank) reached[rank] = sum += 1.0 / static_cast<double>(rank + 1);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto found = std::lower_bound(reached.begin(), reached.end(), sum * random.uniform(i));
    ids[i] = static_cast<int32_t>(std::min<int64_t>(found - reached.begin(), vocab - 1));
  }
  return ids;
}

Chapter embedding_chapter(Backend& backend, const MeasureOptions& options, const EmbeddingSizes& sizes) {
  Chapter chapter{.name = "embedding", .title = "looking rows up, and adding their gradients back"};
  chapter.setup = {{"table", std::to_string(sizes.vocab) + " x " + std::to_string(sizes.hidden) + " f32, " +
                                 std::to_string(sizes.tokens) + " tokens"}};
  const double table_bytes = 4.0 * static_cast<double>(sizes.vocab * sizes.hidden);
  const double copy_rate = measure_copy_rate(backend, static_cast<int64_t>(table_bytes), options.seconds);
  const Rates uniform = measure(backend, options, sizes, false);
  const Rates text = measure(backend, options, sizes, true);
  const auto add = [&](Finding finding) { chapter.findings.push_back(std::move(finding)); };
  add({.key = "one_hot_bytes",
       .what = "bytes a token as one-hot f32",
       .ours = bytes_value(4.0 * static_cast<double>(sizes.vocab)),
       .claim = "C4",
       .published = "200 KB"});
  add({.key = "row_bytes",
       .what = "bytes a token as a row",
       .ours = bytes_value(4.0 * static_cast<double>(sizes.hidden)),
       .claim = "C4",
       .published = "4 KB (1024 f32)"});
  add({.key = "copy_rate", .what = "plain copy of the table", .ours = quantity(copy_rate / 1e9, "GB/s", 2)});
  add({.key = "forward_random",
       .what = "forward, random tokens",
       .ours = rate_value(uniform.forward, copy_rate),
       .claim = "C4",
       .published = "L2 hit rate < 40 %",
       .advice = "a row is read whole: at " + bytes_value(4.0 * static_cast<double>(sizes.hidden)).text +
                 " a row random access costs what the share of a copy says; narrower rows lose more"});
  add({.key = "forward_text", .what = "forward, tokens as in text", .ours = rate_value(text.forward, copy_rate)});
  add({.key = "backward_random",
       .what = "backward, random tokens",
       .ours = rate_value(uniform.backward_first, copy_rate),
       .advice = "most of backward's traffic is zeros for rows that no token names (" +
                 percent(1 - static_cast<double>(uniform.num_rows) / static_cast<double>(sizes.vocab)).text +
                 " of them here): more tokens a micro-batch make it cheaper, tied weights need it anyway"});
  add({.key = "backward_text",
       .what = "backward, tokens as in text",
       .ours = rate_value(text.backward_first, copy_rate)});
  add({.key = "accumulate_random",
       .what = "backward that adds, random tokens",
       .ours = rate_value(uniform.backward_next, copy_rate)});
  add({.key = "accumulate_text",
       .what = "backward that adds, tokens as in text",
       .ours = rate_value(text.backward_next, copy_rate)});
  add({.key = "rows_text",
       .what = "rows that text names",
       .ours = percent(static_cast<double>(text.num_rows) / static_cast<double>(sizes.vocab))});
  const bool repeats = uniform.repeats_its_bits && text.repeats_its_bits;
  add({.key = "repeats_its_bits",
       .what = "gradient twice, bit for bit",
       .ours = {.text = repeats ? "the same" : "differs", .number = repeats ? 1.0 : 0.0, .unit = "bool"}});
  return chapter;
}

}  // namespace litespark::anatomy
