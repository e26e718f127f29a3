// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_table.h"

#include <algorithm>

#include "core/error.h"
#include "core/json_text.h"
#include "core/text_table.h"

namespace litespark {
namespace {

/// The op at which a training tape turns: everything from here on is booked as backward.
int32_t first_backward_op(const Tape& tape) {
  const auto& entries = tape.entries();
  const auto turn = std::find_if(entries.begin(), entries.end(),
                                 [](const TapeEntry& entry) { return entry.scope.starts_with("backward"); });
  return static_cast<int32_t>(turn - entries.begin());
}

struct Stretch {
  std::string name;
  int32_t first_op = 0;
  int32_t end_op = 0;
};

StretchPeak peak_of(const Program& program, const Tape& tape, const PhaseLifetimes& lifetimes, const Stretch& stretch) {
  const PhasePeak peak = measure_peak(program.tensors, lifetimes, stretch.first_op, stretch.end_op);
  const TapeEntry& entry = tape.entries().at(static_cast<size_t>(peak.peak_op));
  return {.name = stretch.name,
          .live_bytes = peak.live_bytes,
          .live_by_owner = peak.live_by_owner,
          .scope = std::string(entry.scope),
          .layer = entry.layer};
}

/// The unit of a whole table, so that its columns compare: KiB for toys, else MiB.
struct Unit {
  std::string name;
  double bytes = 1.0;

  explicit Unit(int64_t total)
      : name(total < (10 << 20) ? "KiB" : "MiB"), bytes(total < (10 << 20) ? 0x1p10 : 0x1p20) {}
  std::string operator()(int64_t value) const {
    return value == 0 ? "-" : fixed_text(static_cast<double>(value) / bytes);
  }
};

std::string place_of(const StretchPeak& peak) {
  if (peak.live_bytes == 0) return "-";
  return peak.layer < 0 ? peak.scope : peak.scope + " of layer " + std::to_string(peak.layer);
}

/// Owners that have no byte anywhere are left out.
std::string owner_table(const MemoryTable& table, const Unit& unit) {
  std::vector<std::string> head = {unit.name + " by owner", "whole run"};
  for (const StretchPeak& stretch : table.stretches) {
    if (stretch.live_bytes > 0) head.push_back(stretch.name);
  }
  TextTable text(std::move(head));
  for (size_t owner = 0; owner < kNumOwners; ++owner) {
    std::vector<std::string> row = {std::string(owner_name(static_cast<Owner>(owner))),
                                    unit(table.persistent_by_owner[owner])};
    int64_t largest = table.persistent_by_owner[owner];
    for (const StretchPeak& stretch : table.stretches) {
      if (stretch.live_bytes == 0) continue;
      row.push_back(unit(stretch.live_by_owner[owner]));
      largest = std::max(largest, stretch.live_by_owner[owner]);
    }
    if (largest > 0) text.add(std::move(row));
  }
  text.add_rule();
  std::vector<std::string> sums = {"sum", unit(table.persistent_bytes)};
  for (const StretchPeak& stretch : table.stretches) {
    if (stretch.live_bytes > 0) sums.push_back(unit(stretch.live_bytes));
  }
  text.add(std::move(sums));
  const bool is_measured = table.measured_beyond_plan_bytes.has_value();
  text.add({is_measured ? "beyond the plan, measured" : "beyond the plan, predicted",
            unit(table.measured_beyond_plan_bytes.value_or(table.beyond_plan_bytes))});
  return text.to_string("  ");
}

std::string stretch_table(const MemoryTable& table, const Unit& unit) {
  TextTable text({"peak of", unit.name + " alive", "reached at"});
  for (const StretchPeak& stretch : table.stretches) {
    text.add({stretch.name, unit(stretch.live_bytes), place_of(stretch)});
  }
  return text.to_string("  ");
}

std::string phase_table(const MemoryTable& table, const Unit& unit) {
  TextTable text({"arena of", unit.name, "lost to gaps"});
  for (const PhasePeak& phase : table.phases) {
    text.add({phase.phase, unit(phase.arena_bytes), unit(phase.arena_bytes - phase.live_bytes)});
  }
  return text.to_string("  ");
}

/// Empty when nothing is offloaded.
std::string host_line(const MemoryTable& table) {
  if (table.host_bytes == 0) return {};
  return "  pinned host memory " + bytes_text(table.host_bytes) + ": offloaded activations\n";
}

std::string owners_json(const std::array<int64_t, kNumOwners>& bytes) {
  std::string out;
  for (size_t owner = 0; owner < kNumOwners; ++owner) {
    out += (owner == 0 ? "" : ", ") + json_string(owner_name(static_cast<Owner>(owner))) + ": " +
           std::to_string(bytes[owner]);
  }
  return "{" + out + "}";
}

}  // namespace

MemoryTable make_memory_table(const Program& program) {
  if (!program.memory) throw InternalError("memory_table", "the program has no plan");
  MemoryTable table{.persistent_by_owner = program.memory->persistent_by_owner(),
                    .phases = program.memory->phases(),
                    .persistent_bytes = program.memory->persistent_bytes(),
                    .arena_bytes = program.memory->arena_bytes(),
                    .host_bytes = program.memory->host_bytes(),
                    .is_exact = program.sizes_are_exact,
                    .beyond_plan_bytes = program.beyond_plan_bytes};
  for (const auto& [phase, tape] : program.tapes) {
    const PhaseLifetimes lifetimes = tape_lifetimes(tape, program.tensors, takes_gradients(phase));
    const auto num_ops = static_cast<int32_t>(tape.entries().size());
    if (num_ops == 0) continue;
    const int32_t turn = first_backward_op(tape);
    // A pipeline stage goes forward and backward in turn.
    if (turn == num_ops || phase == Phase::kTrainStep) {
      table.stretches.push_back(peak_of(program, tape, lifetimes, {tape.phase(), 0, num_ops}));
      continue;
    }
    for (const Stretch& stretch :
         {Stretch{tape.phase() + " forward", 0, turn}, Stretch{tape.phase() + " backward", turn, num_ops}}) {
      table.stretches.push_back(peak_of(program, tape, lifetimes, stretch));
    }
  }
  return table;
}

std::string format_memory_table(const MemoryTable& table) {
  const Unit unit(table.total_bytes());
  return owner_table(table, unit) + "\n" + stretch_table(table, unit) + "\n" + phase_table(table, unit) + "\n" +
         "  total " + bytes_text(table.total_bytes()) + ": " + bytes_text(table.persistent_bytes) +
         " for the whole run + " + bytes_text(table.arena_bytes) + " arena, the largest phase's; library sizes " +
         (table.is_exact ? "exact" : "estimated") + "\n" + host_line(table);
}

std::string memory_table_json(const MemoryTable& table) {
  std::string peaks;
  for (const StretchPeak& stretch : table.stretches) {
    peaks += (peaks.empty() ? "\n    {" : ",\n    {") + std::string("\"name\": ") + json_string(stretch.name) +
             ", \"live_bytes\": " + std::to_string(stretch.live_bytes) + ", \"scope\": " + json_string(stretch.scope) +
             ", \"layer\": " + std::to_string(stretch.layer) + ", \"owners\": " + owners_json(stretch.live_by_owner) +
             "}";
  }
  std::string phases;
  for (const PhasePeak& phase : table.phases) {
    phases += (phases.empty() ? "\n    {" : ",\n    {") + std::string("\"name\": ") + json_string(phase.phase) +
              ", \"arena_bytes\": " + std::to_string(phase.arena_bytes) +
              ", \"live_bytes\": " + std::to_string(phase.live_bytes) + "}";
  }
  return "{\n  \"persistent_bytes\": " + std::to_string(table.persistent_bytes) +
         ",\n  \"arena_bytes\": " + std::to_string(table.arena_bytes) +
         ",\n  \"total_bytes\": " + std::to_string(table.total_bytes()) +
         ",\n  \"host_bytes\": " + std::to_string(table.host_bytes) +
         ",\n  \"exact\": " + (table.is_exact ? "true" : "false") +
         ",\n  \"beyond_plan\": {\"predicted_bytes\": " + std::to_string(table.beyond_plan_bytes) +
         ", \"measured_bytes\": " +
         (table.measured_beyond_plan_bytes ? std::to_string(*table.measured_beyond_plan_bytes) : "null") + "}" +
         ",\n  \"owners\": " + owners_json(table.persistent_by_owner) + ",\n  \"peaks\": [" + peaks +
         "\n  ],\n  \"phases\": [" + phases + "\n  ]\n}";
}

}  // namespace litespark
