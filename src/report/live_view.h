// SPDX-License-Identifier: Apache-2.0
// A moment of a run and of its machine, as lines for people and as one JSON object. What is unknown is left out of the
// lines and null in the object, never 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "meter/energy.h"
#include "meter/gpu_status.h"
#include "meter/host_status.h"
#include "report/run_tail.h"

namespace litespark::report {

struct LiveMoment {
  std::string run_name;        ///< as the user typed the folder; empty: no run is watched
  std::optional<RunTail> run;  ///< when one is
  std::vector<GpuStatus> gpus;
  HostStatus host;
  EnergyInterval host_energy;  ///< processor and memory, since the moment before
};

/// What holds the run or the devices back, in a few words, by the first rule that applies: steps wait for data (over 10
/// % of a step), a board's clocks are down for power or heat, its memory is over 97 % full, boards stand idle (under 50
/// % busy) while a run goes on, all processor threads are busy. Empty: nothing that shows from here.
std::string bottleneck_text(const LiveMoment& moment);

/// One line for the run, one a board, one for the host, then the bottleneck and the run's last warning if any.
std::vector<std::string> live_lines(const LiveMoment& moment);
/// {"run": {...} | null, "gpus": [...], "host": {...}, "bottleneck": "..." | null}, without line feeds.
std::string live_json(const LiveMoment& moment);

}  // namespace litespark::report
