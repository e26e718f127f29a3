// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "train/snapshot.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

TEST(Snapshot, HoldsTheStateOfTheStepItWasBegunAfter) {
  TinyRun run(tiny_model(), tiny_program_options(), {random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1)},
              tiny_trainer_options());
  run.trainer.step_and_finish();
  SnapshotReader reader(run.executor);
  TrainingSnapshot snapshot;
  for (int64_t step = 1; step <= 2; ++step) {
    reader.begin(run.trainer, {.joules = 2.5}, snapshot);
    reader.copy_tensors(snapshot);
    EXPECT_EQ(snapshot.progress.steps_done, step);
    EXPECT_EQ(snapshot.totals.joules, 2.5);
    for (const auto* const flat : {&snapshot.master, &snapshot.first_moment, &snapshot.second_moment}) {
      EXPECT_EQ(std::ssize(*flat), run.executor.program().whole_params.flat_size);
    }
    for (size_t p = 0; p < run.executor.program().params.params.size(); ++p) {
      const ParamSpec& param = run.executor.program().params.params[p];
      const auto first = snapshot.master.begin() + param.flat_offset;
      EXPECT_EQ(std::vector<float>(first, first + param.shape.num_elements()),
                get_parameter(run.executor, static_cast<int64_t>(p)));
    }
    run.trainer.step_and_finish();
  }
}

}  // namespace
}  // namespace litespark
