// SPDX-License-Identifier: Apache-2.0
// The next token from logits. A pure function of the logits, the options and a counter: the same seed gives the same
// text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace litespark {

struct SamplerOptions {
  double temperature = 1.0;  ///< 0: the most likely token, always
  int64_t top_k = 0;         ///< keep the k most likely; 0: all
  double top_p = 1.0;        ///< keep the smallest set of at least this probability (Holtzman et al. 2020)
  double min_p = 0.0;        ///< keep tokens of at least this share of the most likely one's probability
  uint64_t seed = 1;

  /// Throws ConfigError naming the field.
  void validate() const;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);

  /// Draws from softmax(logits / temperature) after top_k, top_p and min_p, in this order. Ties are ranked by id.
  /// `draw` numbers the tokens of one text. Throws NumericError when no logit is finite.
  int32_t sample(std::span<const float> logits, uint64_t draw);

 private:
  void rank(std::span<const float> logits);
  void keep_likely();

  SamplerOptions options_;
  struct Candidate {
    int32_t id;
    double logit;
    double probability;
  };
  std::vector<Candidate> candidates_;  ///< most likely first; reused
};

}  // namespace litespark
