// SPDX-License-Identifier: Apache-2.0
#include "serve/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"

namespace litespark {
namespace {
/// Keeps this use of a seed apart from the others.
constexpr uint64_t kSampleStream = 0x73616d706c65;
}  // namespace

void SamplerOptions::validate() const {
  if (!(temperature >= 0.0) || !std::isfinite(temperature)) {
    throw ConfigError("temperature", "out of range", temperature, "0 or more");
  }
  if (top_k < 0) throw ConfigError("top_k", "out of range", top_k, "0 or more");
  if (!(top_p > 0.0) || top_p > 1.0) throw ConfigError("top_p", "out of range", top_p, "more than 0, at most 1");
  if (!(min_p >= 0.0) || min_p > 1.0) throw ConfigError("min_p", "out of range", min_p, "0 to 1");
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  options_.validate();
}

void Sampler::rank(std::span<const float> logits) {
  candidates_.clear();
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isfinite(logits[id])) candidates_.push_back({static_cast<int32_t>(id), double{logits[id]}, 0.0});
  }
  if (candidates_.empty()) throw NumericError("generate", "no logit is finite", logits.size(), "finite logits");
  const bool is_greedy = options_.temperature == 0.0;
  const auto wanted = is_greedy            ? size_t{1}
                      : options_.top_k > 0 ? static_cast<size_t>(options_.top_k)
                                           : candidates_.size();
  const size_t kept = std::min(wanted, candidates_.size());
  std::partial_sort(
      candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(kept), candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; });
  candidates_.resize(kept);
}

void Sampler::keep_likely() {
  double sum = 0;
  for (Candidate& candidate : candidates_) {
    candidate.probability = std::exp((candidate.logit - candidates_.front().logit) / options_.temperature);
    sum += candidate.probability;
  }
  double before = 0;
  size_t kept = 0;
  // The first candidate always stays; each other one only while top_p is not reached and min_p holds.
  while (kept < candidates_.size() &&
         (kept == 0 || (before < options_.top_p * sum && candidates_[kept].probability >= options_.min_p))) {
    before += candidates_[kept++].probability;
  }
  candidates_.resize(kept);
}

int32_t Sampler::sample(std::span<const float> logits, uint64_t draw) {
  rank(logits);
  if (candidates_.size() == 1) return candidates_.front().id;
  keep_likely();
  double sum = 0;
  for (const Candidate& candidate : candidates_) sum += candidate.probability;
  double left = RandomStream(options_.seed, kSampleStream).uniform(draw) * sum;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.probability;
    if (left <= 0) return candidate.id;
  }
  return candidates_.back().id;
}

}  // namespace litespark
