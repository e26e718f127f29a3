// SPDX-License-Identifier: Apache-2.0
// The timeline of a run: samples steps on a schedule, books evaluations and saves, keeps timeline.json and trace.json
// in the run folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "meter/sample_schedule.h"
#include "meter/timeline.h"
#include "train/evaluate.h"
#include "train/step_timeline.h"
#include "train/trainer.h"

namespace litespark {

class RunTimeline {
 public:
  /// Observes one step in `every`; 0: none, and only the run's own rows are kept. `executor` outlives this.
  RunTimeline(Executor& executor, std::filesystem::path out, int64_t every);

  /// `step`: the one that begins, of the whole run, 1-based.
  void before_step(int64_t step);
  /// `steps_done`: of the whole run. Of a step that was dropped halfway nothing is kept.
  void after_step(int64_t steps_done);
  void add(const StepRecord& record);
  void add_eval(const EvalResult& result) { run_.eval += result.seconds; }
  void add_sample(double seconds) { run_.sample += seconds; }
  void add_save(double seconds) { run_.checkpoint += seconds; }

  /// Writes timeline.json a last time and gives tables of where the time went. Throws IoError.
  std::string finish();

 private:
  void write();
  const RunSeconds& run_seconds();

  Executor& executor_;
  std::filesystem::path out_;
  SampleSchedule schedule_;
  StepTimeline observer_;
  Timeline timeline_;
  RunSeconds run_;
  int64_t step_ = 0;          ///< that began last
  int64_t steps_here_ = 0;    ///< since this process started
  double start_seconds_ = 0;  ///< of the first step
  double step_start_seconds_ = 0;
  double written_seconds_ = 0;  ///< when timeline.json was last written
  bool has_trace_ = false;
};

}  // namespace litespark
