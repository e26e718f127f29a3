// SPDX-License-Identifier: Apache-2.0
#include "meter/emissions.h"

#include <utility>
#include <vector>

#include "core/json_text.h"

namespace litespark {
namespace {

/// Quoted when the text needs it (RFC 4180).
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + "\"";
}

std::string cell(const std::optional<double>& value) {
  return value ? json_number(*value) : "";
}

using Cells = std::vector<std::pair<const char*, std::string>>;

Cells cells_of(const EmissionsRow& row) {
  const EnergyAccount& energy = row.energy;
  const double seconds = energy.metered_seconds;
  const auto power = [&](EnergyPart which) {
    const auto joules = energy.part_joules(which);
    return cell(joules && seconds > 0 ? std::optional(*joules / seconds) : std::nullopt);
  };
  const auto kwh = [&](EnergyPart which) {
    const auto joules = energy.part_joules(which);
    return cell(joules ? std::optional(*joules / kJoulesPerKwh) : std::nullopt);
  };
  std::optional<double> consumed, kilograms, rate;
  if (energy.is_known()) {
    const Footprint total = footprint(energy.joules, {.grams_per_kwh = row.grid.grams_per_kwh, .pue = row.pue});
    consumed = total.machine_kwh;
    kilograms = total.building_grams / 1000.0;
    rate = *kilograms / seconds;
  }
  return {{"timestamp", cell(row.timestamp)},
          {"project_name", cell(row.project_name)},
          {"run_id", cell(row.run_id)},
          {"experiment_id", ""},
          {"duration", cell(seconds)},
          {"emissions", cell(kilograms)},
          {"emissions_rate", cell(rate)},
          {"cpu_power", power(EnergyPart::kCpu)},
          {"gpu_power", power(EnergyPart::kGpu)},
          {"ram_power", power(EnergyPart::kRam)},
          {"cpu_energy", kwh(EnergyPart::kCpu)},
          {"gpu_energy", kwh(EnergyPart::kGpu)},
          {"ram_energy", kwh(EnergyPart::kRam)},
          {"energy_consumed", cell(consumed)},
          {"country_name", cell(row.grid.country)},
          {"country_iso_code", cell(row.grid.iso_code)},
          {"region", ""},
          {"cloud_provider", ""},
          {"cloud_region", ""},
          {"os", "Linux"},
          {"python_version", ""},
          {"codecarbon_version", cell("litespark " + row.version)},
          {"cpu_count", std::to_string(row.cpu_count)},
          {"cpu_model", ""},
          {"gpu_count", std::to_string(row.gpu_count)},
          {"gpu_model", cell(row.gpu_model)},
          {"longitude", ""},
          {"latitude", ""},
          {"ram_total_size", cell(row.ram_gib)},
          {"tracking_mode", "machine"},
          {"on_cloud", "N"},
          {"pue", cell(row.pue)}};
}

}  // namespace

std::string emissions_header() {
  const EnergyAccount energy;
  const GridIntensity grid;
  std::string line;
  for (const auto& [name, value] : cells_of({.energy = energy, .grid = grid})) {
    line.append(line.empty() ? "" : ",").append(name);
  }
  return line + "\n";
}

std::string emissions_line(const EmissionsRow& row) {
  std::string line;
  for (const auto& [name, value] : cells_of(row)) line.append(value).append(",");
  line.back() = '\n';
  return line;
}

}  // namespace litespark
