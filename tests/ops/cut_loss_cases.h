// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of a vocabulary that is cut between ranks, played through on one backend: what comes out together must
// be what the uncut op would give.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ops/loss_cases.h"

namespace litespark::test {

struct CutLossCase {
  LossCase whole;
  int64_t ranks = 1;
  int64_t stored = 1;  ///< columns of each rank; those past the vocabulary are padding
};

/// Even and uneven shares, vectors and not, a rank without any id, one rank.
inline const CutLossCase kCutLossCases[] = {
    {{9, 33, DType::kF32, 0, true, true, 10}, 1, 33},      {{5, 16, DType::kBF16, 0, true, true, 3}, 2, 8},
    {{12, 100, DType::kF32, 1e-3f, true, true, 4}, 3, 40}, {{12, 100, DType::kBF16, 1e-3f, true, true, 4}, 4, 64},
    {{7, 101, DType::kF32, 0, true, false, 2}, 2, 51},     {{6, 4096, DType::kBF16, 1e-4f, true, true, 2}, 2, 2048},
    {{4, 32000, DType::kF32, 0, true, true, 5}, 3, 10688}, {{4, 50257, DType::kBF16, 0, true, true, 5}, 4, 12608}};

class CutLoss {
 public:
  /// `inputs`: those of the whole op (loss_case).
  CutLoss(Backend& backend, const CutLossCase& c, const Values& inputs) : backend_(backend), case_(c), inputs_(inputs) {
    for (int64_t rank = 0; rank < c.ranks; ++rank) {
      const std::vector<double> part = tell(rank);
      statistics_.insert(statistics_.end(), part.begin(), part.end());
    }
  }

  /// What the ranks leave, the gradients put together; reports losses that differ between ranks.
  Execution join() const {
    Execution all;
    const LossCase& whole = case_.whole;
    all.outputs.tensors["logits"].resize(static_cast<size_t>(whole.rows * whole.vocab));
    for (int64_t rank = 0; rank < case_.ranks; ++rank) {
      const Execution own = finish(rank);
      for (const char* name : {"losses", "log_sum_exp"}) {
        if (rank == 0) {
          all.outputs.tensors[name] = own.outputs.at(name);
          all.bytes[name] = own.bytes.at(name);
        }
        EXPECT_EQ(own.bytes.at(name), all.bytes.at(name)) << name << " of rank " << rank;
      }
      if (rank == 0) {
        all.dtypes = own.dtypes;
        all.outputs.state = own.outputs.state;
      }
      if (whole.write_gradient) put(own.outputs.at("logits"), rank, all.outputs.tensors["logits"]);
    }
    if (!whole.write_gradient) all.outputs.tensors.erase("logits");
    return all;
  }

 private:
  int64_t first(int64_t rank) const { return std::min(case_.whole.vocab, rank * case_.stored); }
  int64_t columns(int64_t rank) const { return std::min(case_.stored, case_.whole.vocab - first(rank)); }

  /// A rank's columns; padding is something that nobody may read.
  std::vector<double> logits_of(int64_t rank) const {
    std::vector<double> part(static_cast<size_t>(case_.whole.rows * case_.stored), 1e4);
    for (int64_t row = 0; row < case_.whole.rows; ++row) {
      std::copy_n(inputs_.at("logits").begin() + row * case_.whole.vocab + first(rank), columns(rank),
                  part.begin() + row * case_.stored);
    }
    return part;
  }

  std::vector<double> tell(int64_t rank) const {
    const LossCase& whole = case_.whole;
    OpCase<op::CrossEntropyPart<Tensor>> test{
        .name = "part of rank " + std::to_string(rank),
        .op = {.statistics = shape_only(DType::kF32, {whole.rows, op::kRowStatistics}),
               .logits = shape_only(whole.dtype, {whole.rows, case_.stored}),
               .labels = shape_only(DType::kI32, {whole.rows}),
               .first_id = first(rank),
               .columns = columns(rank)},
        .inputs = {}};
    test.inputs.tensors["logits"] = logits_of(rank);
    test.inputs.tensors["labels"] = inputs_.at("labels");
    return execute(backend_, test).outputs.at("statistics");
  }

  Execution finish(int64_t rank) const {
    const LossCase& whole = case_.whole;
    OpCase<op::CrossEntropyJoined<Tensor>> test{
        .name = "joined by rank " + std::to_string(rank),
        .op = {.losses = shape_only(DType::kF32, {whole.rows}),
               .log_sum_exp = shape_only(DType::kF32, {whole.rows}),
               .logits = shape_only(whole.dtype, {whole.rows, case_.stored}),
               .labels = shape_only(DType::kI32, {whole.rows}),
               .statistics = shape_only(DType::kF32, {case_.ranks, whole.rows, op::kRowStatistics}),
               .state = state_shape(),
               .ranks = case_.ranks,
               .first_id = first(rank),
               .columns = columns(rank),
               .vocab = whole.vocab,
               .z_coefficient = whole.z_coefficient,
               .write_gradient = whole.write_gradient},
        .inputs = {}};
    test.inputs.tensors["logits"] = logits_of(rank);
    test.inputs.tensors["labels"] = inputs_.at("labels");
    test.inputs.tensors["statistics"] = statistics_;
    return execute(backend_, test);
  }

  void put(const std::vector<double>& part, int64_t rank, std::vector<double>& gradient) const {
    for (int64_t row = 0; row < case_.whole.rows; ++row) {
      const auto begin = part.begin() + row * case_.stored;
      std::copy_n(begin, columns(rank), gradient.begin() + row * case_.whole.vocab + first(rank));
      for (auto padding = begin + columns(rank); padding < begin + case_.stored; ++padding) EXPECT_EQ(*padding, 0.0);
    }
  }

  Backend& backend_;
  const CutLossCase& case_;
  const Values& inputs_;
  std::vector<double> statistics_;
};

inline Execution join_cut_loss(Backend& backend, const CutLossCase& c, const Values& inputs) {
  return CutLoss(backend, c, inputs).join();
}

}  // namespace litespark::test
