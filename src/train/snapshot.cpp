// SPDX-License-Identifier: Apache-2.0
#include "train/snapshot.h"

#include <future>
#include <span>

#include "model/gather.h"
#include "model/weights.h"

namespace litespark {

SnapshotReader::SnapshotReader(const Executor& executor) : executor_(executor) {
  for (auto& reader : readers_) reader = executor.backend().make_side_reader();
}

void SnapshotReader::begin(const Trainer& trainer, const RunTotals& totals, TrainingSnapshot& snapshot) {
  snapshot.progress = trainer.progress();
  snapshot.totals = totals;
  for (const auto& reader : readers_) reader->follow();
}

void SnapshotReader::copy_tensors(TrainingSnapshot& snapshot) const {
  const Program& program = executor_.program();
  const auto each_part = [&](std::vector<float>& flat, const auto& read) {
    flat.resize(static_cast<size_t>(program.params.flat_size));
    for (size_t p = 0; p < program.params.params.size(); ++p) {
      const ParamSpec& param = program.params.params[p];
      read(p, std::span(flat).subspan(static_cast<size_t>(param.flat_offset),
                                      static_cast<size_t>(param.shape.num_elements())));
    }
  };
  auto first_moment = std::async(std::launch::async, [&] {
    each_part(snapshot.first_moment, [&](size_t p, std::span<float> values) {
      read_floats(executor_, program.param_tensors[p].first_moment, values, readers_[1].get());
    });
  });
  auto second_moment = std::async(std::launch::async, [&] {
    each_part(snapshot.second_moment, [&](size_t p, std::span<float> values) {
      read_floats(executor_, program.param_tensors[p].second_moment, values, readers_[2].get());
    });
  });
  each_part(snapshot.master, [&](size_t p, std::span<float> values) {
    read_parameter(executor_, static_cast<int64_t>(p), values, readers_[0].get());
  });
  first_moment.get();
  second_moment.get();
}

void take_gathered_snapshot(Executor& executor, Trainer& trainer, const RunTotals& totals, bool keeps,
                            TrainingSnapshot& snapshot) {
  trainer.synchronise_copies();
  snapshot.progress = trainer.progress();
  snapshot.totals = totals;
  const auto size = static_cast<size_t>(executor.program().whole_params.flat_size);
  for (auto* flat : {&snapshot.master, &snapshot.first_moment, &snapshot.second_moment}) flat->resize(keeps ? size : 0);
  gather_masters(executor, snapshot.master);
  gather_moment(executor, &ParamTensors::first_moment, snapshot.first_moment);
  gather_moment(executor, &ParamTensors::second_moment, snapshot.second_moment);
  if (!executor.program().residual.has_value()) return;
  snapshot.residuals.resize(static_cast<size_t>(executor.program().options.data_ranks));
  for (size_t rank = 0; rank < snapshot.residuals.size(); ++rank) {
    snapshot.residuals[rank].resize(keeps ? size : 0);
    gather_residual(executor, static_cast<int64_t>(rank), snapshot.residuals[rank]);
  }
}

void take_snapshot(const Executor& executor, const Trainer& trainer, const RunTotals& totals,
                   TrainingSnapshot& snapshot) {
  SnapshotReader reader(executor);
  reader.begin(trainer, totals, snapshot);
  reader.copy_tensors(snapshot);
}

}  // namespace litespark
